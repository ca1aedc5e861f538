import type { AgentOperations } from '../../control/operations.ts';
import { abortable } from '../../system/abortable.ts';
import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { OutsideFileError } from '../../system/files/untrusted-file.ts';
import { printable, printableJson } from '../../system/log/printable.ts';
import type { Redacted, Redactor } from '../../system/log/redactor.ts';
import { Deadline } from '../../system/time/deadline.ts';
import type { CliContext, Support } from '../context.ts';
import { CliError } from '../errors.ts';

const MAX_FILE_BYTES = 2 * 1024 * 1024;
const TIMEOUT_MS = 20_000;

/** Everything that the sections of a support bundle are made of. */
export interface Sources {
  /** The daemon, or an agent in this process; if neither is available, the reason. */
  readonly agent: AgentOperations | AgentError;
  readonly support: Support;
  readonly context: CliContext;
}

/** One file of a support bundle. */
export interface Section {
  readonly name: string;
  readonly file: string;
  /** The description in the README.txt of a support bundle. */
  readonly meaning: string;
  readonly timeoutMs?: number;
  /** The part of a long text that is kept; the beginning by default. */
  readonly keep?: 'end';
  /** A string is written unchanged, anything else as JSON, and no file if there is no value. Throws if the content is unavailable. */
  readonly read: (sources: Sources, signal: AbortSignal) => Promise<unknown>;
}

/** A file of a support bundle as it is packed. */
export interface PackedFile extends Pick<Section, 'file' | 'meaning'> {
  readonly part: string;
  readonly bytes: Uint8Array;
  /** True if the file was longer. */
  readonly isCut: boolean;
}

export interface CollectedFiles {
  readonly files: readonly PackedFile[];
  /** The sections that are not available, and why. */
  readonly missing: readonly { readonly part: string; readonly code: string; readonly why: string }[];
  /** The number of removed secrets. */
  readonly hidden: number;
}

/** Reads all sections, one after the other. A section that fails is noted as missing; only an abort throws. */
export async function collect(
  sections: readonly Section[],
  sources: Sources,
  redactor: Redactor,
  signal: AbortSignal,
): Promise<CollectedFiles> {
  const files: PackedFile[] = [];
  const missing: CollectedFiles['missing'][number][] = [];
  let hidden = 0;
  for (const section of sections) {
    const { name: part, file, meaning } = section;
    sources.context.err.pin(`Collecting: ${part} ...`);
    try {
      const content = await withTimeout(section, sources, signal);
      if (content === undefined) continue;
      const { text, count } = withoutSecrets(content, redactor);
      hidden += count;
      files.push({ file, part, meaning, ...bounded(text, section.keep) });
    } catch (error) {
      signal.throwIfAborted();
      missing.push({ part, code: codeOf(error), why: redactor.redact(describeError(error)).text });
    }
  }
  sources.context.err.pin(undefined);
  return { files, missing, hidden };
}

/** A section that ignores its signal keeps running. */
async function withTimeout({ name, timeoutMs = TIMEOUT_MS, read }: Section, sources: Sources, signal: AbortSignal) {
  const late = (): Error => new CliError('part-unavailable', `${name} was not available within ${timeoutMs / 1_000} s`);
  using deadline = new Deadline(timeoutMs, late, signal);
  return await abortable(read(sources, deadline.signal), deadline.signal);
}

function withoutSecrets(content: unknown, redactor: Redactor): Redacted {
  if (typeof content !== 'string') {
    const { value, count } = redactor.redactValue(content);
    return { text: `${printableJson(value, 2)}\n`, count };
  }
  const { text, count } = redactor.redact(content);
  return { text: text.replaceAll(/[^\t\n]+/g, printable), count };
}

function bounded(text: string, keep: 'end' | undefined): Pick<PackedFile, 'bytes' | 'isCut'> {
  const bytes = Buffer.from(text);
  if (bytes.byteLength <= MAX_FILE_BYTES) return { bytes, isCut: false };
  if (keep === undefined) return { bytes: bytes.subarray(0, MAX_FILE_BYTES), isCut: true };
  const end = bytes.subarray(-MAX_FILE_BYTES);
  return { bytes: end.subarray(end.indexOf('\n') + 1), isCut: true };
}

function codeOf(error: unknown): string {
  if (error instanceof AgentError) return error.code;
  const isKnown = systemErrorCode(error) !== undefined || error instanceof OutsideFileError;
  return isKnown ? 'part-unavailable' : 'internal-error';
}
