import { abortable } from '../../system/abortable.ts';
import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { OutsideFileError } from '../../system/files/untrusted-file.ts';
import { printable, printableJson } from '../../system/log/printable.ts';
import type { Redactor } from '../../system/log/redactor.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { CliError } from '../errors.ts';
import type { Section, SectionFile, PartName, Sources } from './part.ts';

const MAX_FILE_BYTES = 2 * 1024 * 1024;

/** A file of a report as it is packed. */
export interface PackedFile {
  readonly file: string;
  readonly part: PartName;
  readonly bytes: Uint8Array;
  /** True if the file was longer and was cut. */
  readonly isCut: boolean;
}

/** A part that could not be gathered, and the reason. */
export interface MissingPart {
  readonly part: PartName;
  readonly code: string;
  /** The reason as a sentence. */
  readonly why: string;
}

export interface CollectedFiles {
  readonly files: readonly PackedFile[];
  readonly missing: readonly MissingPart[];
  /** The number of places where a secret was taken out. */
  readonly hidden: number;
}

/**
 * Gathers all parts one after the other. A part that fails is noted as missing; only an interruption ends the
 * gathering.
 */
export async function collect(
  sections: readonly Section[],
  sources: Sources,
  redactor: Redactor,
  signal: AbortSignal,
): Promise<CollectedFiles> {
  const files: PackedFile[] = [];
  const missing: MissingPart[] = [];
  let hidden = 0;
  for (const part of sections) {
    sources.context.err.pin(`Gathering: ${part.name} ...`);
    try {
      for (const found of await withTimeout(part, sources, signal)) {
        const { text, count } = withoutSecrets(found, redactor);
        hidden += count;
        files.push({ file: found.file, part: part.name, ...bounded(text, found.keep) });
      }
    } catch (error) {
      signal.throwIfAborted();
      missing.push({ part: part.name, code: codeOf(error), why: redactor.redact(describeError(error)).text });
    }
  }
  sources.context.err.pin(undefined);
  return { files, missing, hidden };
}

/** A part that does not even react to its signal is left running. */
async function withTimeout({ name, timeoutMs, gather: look }: Section, sources: Sources, signal: AbortSignal) {
  const late = (): Error => new CliError('part-unavailable', `${name} was not had within ${timeoutMs / 1_000} s`);
  using deadline = new Deadline(timeoutMs, late, signal);
  return await abortable(look(sources, deadline.signal), deadline.signal);
}

function withoutSecrets(
  { content }: SectionFile,
  redactor: Redactor,
): { readonly text: string; readonly count: number } {
  if (typeof content === 'string') {
    const { text, count } = redactor.redact(content);
    return { text: text.split('\n').map(printableLine).join('\n'), count };
  }
  const { value, count } = redactor.redactValue(content);
  return { text: `${printableJson(value, 2)}\n`, count };
}

function printableLine(line: string): string {
  return line.split('\t').map(printable).join('\t');
}

function bounded(text: string, keep: 'end' | undefined): { readonly bytes: Uint8Array; readonly isCut: boolean } {
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
