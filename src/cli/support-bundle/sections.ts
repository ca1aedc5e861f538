import { arch, release, uptime, version } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { ConfigError } from '../../config/errors.ts';
import type { AgentOperations } from '../../control/operations.ts';
import { AgentError, valueOrError } from '../../system/errors.ts';
import { openOwn, readUntrustedFile } from '../../system/files/untrusted-file.ts';
import { parsedJson } from '../../system/json-value.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { examine } from '../commands/inspect/inspect-commands.ts';
import { CliError } from '../errors.ts';
import type { Section, Sources } from './collect.ts';

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_PRINTED_BYTES = 4 * 1024 * 1024;
const MAX_LOG_LINES = 5_000;
const MAX_KERNEL_LINES = 20_000;
const MAX_SHOWN_LINES = 1_000;
const PROGRAM_MS = 8_000;
/** `doctor` asks the service and runs the trial timer's checks. */
const DOCTOR_MS = 120_000;
const UNITS = ['thing-agent.service', 'thing-agent-trial.service'] as const;
const TRIAL_TIMER = 'thing-agent-trial.timer';

export const sections: readonly Section[] = [
  {
    name: 'status',
    file: 'status.json',
    meaning: 'agent status',
    read: async ({ agent }, signal) => available(agent).status({}, signal),
  },
  {
    name: 'doctor',
    file: 'doctor.json',
    meaning: 'agent doctor',
    timeoutMs: DOCTOR_MS,
    read: async ({ context }, signal) => ({ findings: await examine({ ...context, signal }) }),
  },
  {
    name: 'configuration',
    file: 'config.toml',
    meaning: 'the configuration in effect, secrets hidden',
    read: async ({ support }) => support.configuration(),
  },
  {
    name: 'config-problems',
    file: 'config-problems.txt',
    meaning: 'problems of the configuration',
    read: configProblems,
  },
  {
    name: 'journal',
    file: 'journal.json',
    meaning: 'the state of the running update',
    read: async ({ support }, signal) => stateFile(support, 'journal.json', signal),
  },
  {
    name: 'history',
    file: 'history.json',
    meaning: 'the last update attempts',
    read: async ({ agent, support }, signal) =>
      agent instanceof AgentError ? stateFile(support, 'history.json', signal) : agent.history({}, signal),
  },
  {
    name: 'security',
    file: 'security.json',
    meaning: 'security events',
    read: async ({ agent, support }, signal) =>
      agent instanceof AgentError ? stateFile(support, 'security.json', signal) : agent.securityLog({}, signal),
  },
  {
    name: 'sensors',
    file: 'sensors.json',
    meaning: 'agent sensors, with the last readings',
    read: async ({ agent }, signal) => available(agent).sensors({}, signal),
  },
  { name: 'log', file: 'log.txt', meaning: 'the log of the agent (journalctl)', keep: 'end', read: log },
  {
    name: 'unit',
    file: 'unit.txt',
    meaning: 'the state of the systemd units',
    read: async (_sources, signal) =>
      printed(['systemctl', 'show', '--no-pager', `--property=${unitProperties}`, ...UNITS, TRIAL_TIMER], signal),
  },
  { name: 'versions', file: 'versions.txt', meaning: 'agent, node, kernel, os-release', read: versions },
  {
    name: 'mounts',
    file: 'mounts.txt',
    meaning: 'mounted file systems',
    read: async (_sources, signal) => fileText('/proc/self/mounts', signal),
  },
  {
    name: 'boot-environment',
    file: 'boot-environment.json',
    meaning: 'the environment of the bootloader',
    read: async ({ support }, signal) => support.bootEnvironment(signal),
  },
  {
    name: 'kernel',
    file: 'kernel.txt',
    meaning: 'kernel messages about the configured devices',
    keep: 'end',
    read: kernel,
  },
];

/** Returns all problems of the configuration, or nothing if it is valid. */
async function configProblems({ support }: Sources): Promise<string | undefined> {
  const found = await valueOrError(support.configuration());
  if (!(found instanceof AgentError)) return undefined;
  if (!(found instanceof ConfigError)) throw found;
  return `${found.descriptions.join('\n')}\n`;
}

const quiet = ['--quiet', '--no-pager', '--no-hostname'] as const;

async function log(_sources: Sources, signal: AbortSignal): Promise<string> {
  const units = UNITS.map((name) => `--unit=${name}`);
  const text = await printed(
    ['journalctl', ...quiet, '--output=short-iso', `--lines=${MAX_LOG_LINES}`, ...units],
    signal,
  );
  if (text === '') throw missingFrom('the systemd journal contains no messages of the agent');
  return text;
}

/** The environment of the units is left out: it may hold secrets. */
const unitProperties =
  'Id,LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainCode,ActiveEnterTimestamp,StateChangeTimestamp,MemoryCurrent,UnitFileState';

async function versions({ context }: Sources, signal: AbortSignal): Promise<string> {
  const lines = [
    `agent: ${context.version}`,
    `node: ${process.version}`,
    `kernel: ${release()} ${version()} ${arch()}`,
    `up for: ${Math.floor(uptime())} s`,
    '',
    '/etc/os-release:',
    await fileText('/etc/os-release', signal),
  ];
  return lines.join('\n');
}

/** Returns only the kernel messages of this boot about the configured devices. */
async function kernel({ support }: Sources, signal: AbortSignal): Promise<string> {
  const names = await support.kernelNames();
  if (names.length === 0) throw missingFrom('no configured device appears in kernel messages');
  const text = await kernelLines(signal);
  const lines = text.split('\n').filter((line) => names.some((name) => line.includes(name)));
  const head = `# kernel messages of this boot about: ${names.join(', ')}`;
  return `${[head, ...lines.slice(-MAX_SHOWN_LINES)].join('\n')}\n`;
}

/** Returns the kernel's own log if the systemd journal is missing or not readable. */
async function kernelLines(signal: AbortSignal): Promise<string> {
  const kept = ['--dmesg', '--boot', '--output=short-monotonic', `--lines=${MAX_KERNEL_LINES}`] as const;
  const text = await valueOrError(printed(['journalctl', ...quiet, ...kept], signal));
  return typeof text === 'string' && text !== '' ? text : printed(['dmesg'], signal);
}

function available(agent: Sources['agent']): AgentOperations {
  if (agent instanceof AgentError) throw agent;
  return agent;
}

/** Returns a state file as a JSON value, so that redacting keeps it well formed, or a damaged file as text. */
async function stateFile({ stateDirectory }: Sources['support'], name: string, signal: AbortSignal): Promise<unknown> {
  const text = await fileText(join(stateDirectory, name), signal, async (path) => openOwn(path, 'file'));
  return parsedJson(text) ?? text;
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
