import { arch, release, uptime, version } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { ConfigError, describeProblem } from '../../config/errors.ts';
import type { AgentOperations } from '../../control/operations.ts';
import { AgentError } from '../../system/errors.ts';
import { openOwn, readUntrustedFile } from '../../system/files/untrusted-file.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { examine } from '../commands/inspect-commands.ts';
import { CliError } from '../errors.ts';
import type { Page } from '../screen/page.ts';
import { renderDoctor } from '../screen/pages/render-reports.ts';
import { renderStatus } from '../screen/pages/render-rows.ts';
import { plain } from '../screen/style.ts';
import type { Section, SectionFile, Sources } from './part.ts';

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_PRINTED_BYTES = 4 * 1024 * 1024;
const MAX_LOG_LINES = 5_000;
const MAX_KERNEL_LINES = 20_000;
const MAX_TOLD_LINES = 1_000;
const LOOK_MS = 20_000;
const PROGRAM_MS = 8_000;
/** `doctor` asks the service and runs the safety net, which takes its time. */
const DOCTOR_MS = 120_000;
const UNITS = ['thing-agent.service', 'thing-agent-trial.service'] as const;

export const parts: readonly Section[] = [
  { name: 'status', timeoutMs: LOOK_MS, gather: status },
  { name: 'doctor', timeoutMs: DOCTOR_MS, gather: doctor },
  { name: 'configuration', timeoutMs: LOOK_MS, gather: configuration },
  { name: 'config-problems', timeoutMs: LOOK_MS, gather: configProblems },
  { name: 'journal', timeoutMs: LOOK_MS, gather: journal },
  { name: 'history', timeoutMs: LOOK_MS, gather: async (sources, signal) => records('history', sources, signal) },
  { name: 'security', timeoutMs: LOOK_MS, gather: async (sources, signal) => records('security', sources, signal) },
  { name: 'sensors', timeoutMs: LOOK_MS, gather: sensors },
  { name: 'log', timeoutMs: LOOK_MS, gather: log },
  { name: 'unit', timeoutMs: LOOK_MS, gather: unit },
  { name: 'versions', timeoutMs: LOOK_MS, gather: versions },
  { name: 'mounts', timeoutMs: LOOK_MS, gather: mounts },
  { name: 'boot-environment', timeoutMs: LOOK_MS, gather: bootEnvironment },
  { name: 'kernel', timeoutMs: LOOK_MS, gather: kernel },
];

async function status({ agent, context }: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  const report = await asked(agent).status({}, signal);
  return [
    { file: 'status.json', content: report },
    { file: 'status.txt', content: renderStatus(report, pageOf(context)) },
  ];
}

async function doctor({ context }: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  const findings = await examine({ ...context, signal });
  return [
    { file: 'doctor.json', content: { findings } },
    { file: 'doctor.txt', content: renderDoctor(findings, pageOf(context)) },
  ];
}

async function configuration({ support }: Sources): Promise<readonly SectionFile[]> {
  return [{ file: 'config.toml', content: await support.configuration() }];
}

/** All problems of the configuration; no file if it can be used. */
async function configProblems({ support }: Sources): Promise<readonly SectionFile[]> {
  try {
    await support.configuration();
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const lines = error.problems.map((problem) => describeProblem(error.path, problem));
    const more = error.omitted > 0 ? [`and ${error.omitted} more`] : [];
    return [{ file: 'config-problems.txt', content: `${[...lines, ...more].join('\n')}\n` }];
  }
}

async function journal({ support }: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  return [{ file: 'journal.json', content: await stateFile(support, 'journal.json', signal) }];
}

/** The records as the agent answers them; without an agent, the file that holds them. */
async function records(
  name: 'history' | 'security',
  { agent, support }: Sources,
  signal: AbortSignal,
): Promise<readonly SectionFile[]> {
  const file = `${name}.json`;
  if (agent instanceof AgentError) return [{ file, content: await stateFile(support, file, signal) }];
  return [{ file, content: await (name === 'history' ? agent.history({}, signal) : agent.securityLog({}, signal)) }];
}

async function sensors({ agent }: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  return [{ file: 'sensors.json', content: await asked(agent).sensors({}, signal) }];
}

async function log(_sources: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  const units = UNITS.map((name) => `--unit=${name}`);
  const text = await printed(
    ['journalctl', ...quiet, '--output=short-iso', `--lines=${MAX_LOG_LINES}`, ...units],
    signal,
  );
  if (text === '') throw missingFrom('the journal of this machine has nothing of the agent');
  return [{ file: 'log.txt', content: text, keep: 'end' }];
}

const quiet = ['--quiet', '--no-pager', '--no-hostname'] as const;

/** The environment of the units is left out: it may hold secrets. */
const unitProperties =
  'Id,LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainCode,ActiveEnterTimestamp,StateChangeTimestamp,MemoryCurrent,UnitFileState';

async function unit(_sources: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  const named = [...UNITS, 'thing-agent-trial.timer'];
  const text = await printed(['systemctl', 'show', '--no-pager', `--property=${unitProperties}`, ...named], signal);
  return [{ file: 'unit.txt', content: text }];
}

async function versions({ context }: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  const lines = [
    `agent: ${context.version}`,
    `node: ${process.version}`,
    `kernel: ${release()} ${version()} ${arch()}`,
    `up for: ${Math.floor(uptime())} s`,
    '',
    '/etc/os-release:',
    await fileText('/etc/os-release', signal),
  ];
  return [{ file: 'versions.txt', content: lines.join('\n') }];
}

async function mounts(_sources: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  return [{ file: 'mounts.txt', content: await fileText('/proc/self/mounts', signal) }];
}

async function bootEnvironment({ support }: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  return [{ file: 'boot-environment.txt', content: await support.bootEnvironment(signal) }];
}

/** The kernel's messages of this boot about the configured devices, and no others. */
async function kernel({ support }: Sources, signal: AbortSignal): Promise<readonly SectionFile[]> {
  const names = await support.kernelNames();
  if (names.length === 0) throw missingFrom('no device is configured of which the kernel would tell');
  const text = await kernelLines(signal);
  const lines = text.split('\n').filter((line) => names.some((name) => line.includes(name)));
  const head = `# what the kernel said in this boot of: ${names.join(', ')}`;
  return [{ file: 'kernel.txt', content: `${[head, ...lines.slice(-MAX_TOLD_LINES)].join('\n')}\n`, keep: 'end' }];
}

/** The kernel's own log if systemd's journal is missing or may not be read. */
async function kernelLines(signal: AbortSignal): Promise<string> {
  try {
    const kept = ['--dmesg', '--boot', '--output=short-monotonic', `--lines=${MAX_KERNEL_LINES}`] as const;
    const text = await printed(['journalctl', ...quiet, ...kept], signal);
    if (text !== '') return text;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
  }
  return printed(['dmesg'], signal);
}

function asked(agent: AgentOperations | AgentError): AgentOperations {
  if (agent instanceof AgentError) throw agent;
  return agent;
}

/** A state file as a JSON value, so that redacting keeps it well formed; a damaged file as text. */
async function stateFile({ stateDirectory }: Sources['support'], name: string, signal: AbortSignal): Promise<unknown> {
  const text = await fileText(join(stateDirectory, name), signal, async (path) => openOwn(path, 'file'));
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}

async function fileText(
  path: string,
  signal: AbortSignal,
  open?: (path: string) => ReturnType<typeof openOwn>,
): Promise<string> {
  const options = { maxBytes: MAX_FILE_BYTES, longer: 'cut', ...(open === undefined ? {} : { open }) } as const;
  return (await readUntrustedFile(path, options, signal)).toString('utf8');
}

async function printed(command: readonly [string, ...string[]], signal: AbortSignal): Promise<string> {
  const options = { timeoutMs: PROGRAM_MS, maxOutputBytes: MAX_PRINTED_BYTES };
  const { exitCode, stdout, stderr } = await runProgram(command, options, signal);
  if (exitCode === 0 && (stdout !== '' || stderr === '')) return stdout;
  throw missingFrom(
    `${command[0]} ended with exit code ${exitCode ?? 'none'}: ${stderr.trim().split('\n', 1)[0] ?? ''}`,
  );
}

function missingFrom(why: string): CliError {
  return new CliError('part-unavailable', why);
}

const REPORT_COLUMNS = 100;

function pageOf({ clock, localOffset }: Sources['context']): Page {
  return { columns: REPORT_COLUMNS, paint: plain, nowMs: clock.nowMs(), localOffset };
}
