import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';

import type { AgentOperations } from '../../control/operations.ts';
import { formatBytes } from '../../control/presentation/bytes.ts';
import { AgentError, mapError } from '../../system/errors.ts';
import { NewFileError, rejectExisting, writeNewFile } from '../../system/files/new-file.ts';
import { ArgumentError } from '../arguments/command.ts';
import type { Command, ParsedCommand } from '../arguments/command.ts';
import type { CliContext, Support } from '../context.ts';
import { CliError, translateOutputError } from '../errors.ts';
import { renderParagraph } from '../screen/layout.ts';
import type { CollectedFiles } from '../support-bundle/collect.ts';
import { wholePath } from './named-file.ts';
import { printResult } from './print.ts';
import { withReadOnlyAgent } from './with-agent.ts';

export const reportCommand: Command = {
  name: 'support-bundle',
  operands: ['FILE'],
  options: ['overwrite'],
  group: 'Inspect',
  summary: 'collect diagnostics for support, without secrets',
  details: [
    'FILE must end with .tar.gz. The bundle contains status, doctor, configuration, journal, history, logs, versions, mounts, boot environment, and ' +
      'kernel messages about the devices. Its README.txt lists the missing parts with the reasons.',
    'Removes keys, passwords and arguments of programs. Works without a daemon and with an invalid configuration.',
  ],
  run: report,
};

/** The file that the support bundle is written to. */
interface Output {
  readonly path: string;
  /** The name of the directory in the archive that holds all files. */
  readonly directory: string;
  readonly mayReplace: boolean;
}

async function report(typed: ParsedCommand, context: CliContext): Promise<number> {
  const output = outputOf(typed, context);
  const support = await context.support();
  await asOutput(output, async () => refuseOutput(output, support));
  const gathered = await gatherAll(support, context);
  const sizeBytes = await asOutput(output, async () => write(output, gathered, context));
  const { value, lines } = describe(output.path, sizeBytes, gathered);
  return printResult(value, (page) => lines.map((line) => renderParagraph(line, page)).join(''), typed, context);
}

function outputOf({ operands, flags }: ParsedCommand, context: CliContext): Output {
  const [named = ''] = operands;
  const ending = /\.(?:tar\.gz|tgz)$/.exec(named)?.[0];
  if (ending === undefined) throw new ArgumentError(`${named} does not end with .tar.gz`);
  const path = wholePath(named, context);
  return { path, directory: basename(path, ending), mayReplace: flags.has('overwrite') };
}

/**
 * Uses the daemon, or an agent in this process. If neither is available, the sections that need one report the reason.
 */
async function gatherAll(support: Support, context: CliContext): Promise<CollectedFiles> {
  const { collect } = await import('../support-bundle/collect.ts');
  const { sections } = await import('../support-bundle/sections.ts');
  const { Redactor } = await import('../../system/log/redactor.ts');
  const redactor = new Redactor(support.secrets);
  let begun = false;
  const work = async (agent: AgentOperations | AgentError): Promise<CollectedFiles> => {
    begun = true;
    return collect(sections, { agent, support, context }, redactor, context.signal);
  };
  try {
    return await withReadOnlyAgent(context, work);
  } catch (error) {
    if (begun || !(error instanceof AgentError)) throw error;
    return work(error);
  }
}

async function write(
  { path, directory, mayReplace }: Output,
  gathered: CollectedFiles,
  { version, clock }: CliContext,
): Promise<number> {
  const { writeArchive, readme } = await import('../support-bundle/archive.ts');
  const at = new Date(clock.nowMs());
  const text = readme({ ...gathered, version, at: at.toISOString() });
  const files = [{ file: 'README.txt', bytes: Buffer.from(text) }, ...gathered.files];
  return writeArchive(directory, files, at, async (chunks) => writeNewFile(path, chunks, mayReplace));
}

/** Throws `output-refused`, before anything is collected, if the support bundle cannot be written there. */
async function refuseOutput({ path, mayReplace }: Output, support: Support): Promise<void> {
  const refused = (why: string): CliError => new CliError('output-refused', `${path} ${why}`);
  if (/^\/(?:dev|proc|sys)\//.test(path)) throw refused('is in a directory for devices, not files');
  const slot = await support.slotUnder(path);
  if (slot !== undefined) throw refused(`is on slot ${slot}`);
  await rejectExisting(path, mayReplace);
  await stat(dirname(path));
}

async function asOutput<T>({ path }: Output, work: () => Promise<T>): Promise<T> {
  return mapError(work(), (error) => {
    if (!(error instanceof NewFileError)) return translateOutputError(path, error);
    return new CliError(error.kind === 'exists' ? 'output-exists' : 'output-refused', error.message, { cause: error });
  });
}

function describe(path: string, sizeBytes: number, { files, missing, hidden }: CollectedFiles) {
  const value = {
    path,
    sizeBytes,
    files: files.map(({ file, part, bytes: { byteLength }, isCut }) => ({ file, part, sizeBytes: byteLength, isCut })),
    missing: missing.map(({ part, code }) => ({ part, code })),
    hidden,
  };
  const lines = [
    `Written: ${path}`,
    `Size: ${formatBytes(sizeBytes)}; readable only by its owner`,
    `Contents: ${[...new Set(files.map(({ part }) => part))].join(', ')}`,
    ...(missing.length === 0
      ? []
      : [`Missing (reasons in its README.txt): ${missing.map(({ part }) => part).join(', ')}`]),
    'The keys and passwords of this gateway were removed from every part.',
  ];
  return { value, lines };
}
