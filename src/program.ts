import { statSync } from 'node:fs';
import process from 'node:process';

import type { Invocation } from './cli/arguments/command.ts';
import { parseArguments } from './cli/arguments/parse-arguments.ts';
import type { CheckLocation, CliContext } from './cli/context.ts';
import { listenForInterruption } from './cli/interruption.ts';
import { runCommand } from './cli/run.ts';
import { consoleLog } from './cli/screen/console-log.ts';
import { LinePrompter } from './cli/screen/line-prompter.ts';
import { pageFor } from './cli/screen/page.ts';
import { Terminal } from './cli/screen/terminal.ts';
import type { FileContext } from './config/check/check-config.ts';
import type { LoadedConfig } from './config/load-config.ts';
import { systemOffset } from './control/presentation/time.ts';
import type { Runtime } from './daemon/wiring/wiring.ts';
import { systemErrorCode } from './system/errors.ts';
import type { AgentError } from './system/errors.ts';
import type { Log } from './system/log/log.ts';
import { systemClock } from './system/time/clock.ts';
import { agentVersion } from './version.ts';

const DEFAULT_RUN_DIRECTORY = '/run/thing-agent';

/**
 * Takes arguments and returns the exit code. Code that a command does not need is not loaded: a start on a small board
 * takes long.
 */
export async function program(args: readonly string[]): Promise<number> {
  refuseWritesOfOthers();
  const parsed = parseArguments(args);
  using interruption = listenForInterruption(process);
  const { signal } = interruption;
  const load = async (): Promise<LoadedConfig> => loadFrom(parsed.configFile);
  const parent = process.ppid;
  const err = new Terminal(process.stderr);
  const spoken = (): Log => consoleLog(err, () => pageFor(err, context));
  const context: CliContext = {
    out: new Terminal(process.stdout, () => process.ppid === parent),
    err,
    env: process.env,
    version: agentVersion,
    directory: workingDirectory(),
    clock: systemClock,
    localOffset: systemOffset,
    signal,
    guard: (asksInstead) => interruption.guard(asksInstead),
    isInteractive: process.stdin.isTTY && err.isTTY,
    isConfigNamed: parsed.configFile !== undefined,
    person: () => new LinePrompter(process.stdin, err),
    connect: async (ending) => connect(load, ending),
    readOnly: async (daemon, ending, problem) => {
      const { openReadOnlyAgent } = await import('./daemon/local-agent.ts');
      const loaded = problem === undefined ? await load() : await loadPartFrom(parsed.configFile, problem);
      return openReadOnlyAgent(loaded, around(spoken()), daemon, ending);
    },
    local: async (ending) => {
      const { openLocalAgent } = await import('./daemon/local-agent.ts');
      return openLocalAgent(await load(), around(spoken()), purposeOf(parsed.wanted), ending);
    },
    openFile: async (path) => (await import('./system/files/opened-file.ts')).openNamedFile(path),
    inspect: async (named, ending) => (await import('./daemon/inspect-file.ts')).inspectFile(named, undefined, ending),
    runDaemon: async () => runDaemon(load, signal),
    explain: async (code) => (await import('./error-catalogue.ts')).explainCode(code),
    errorCodes: async () => (await import('./error-catalogue.ts')).errorCodes(),
    writeTrustList: async (path, order) => {
      const { writeTrustList } = await import('./firmware/trust/write-trust-list.ts');
      return writeTrustList(path, order, systemClock.nowMs());
    },
    writeDelta: async (...order) => (await import('./firmware/delta/write-delta.ts')).writeDelta(...order),
    setup: async (from) => {
      const { beginSetup } = await import('./setup/setup.ts');
      const { checkOnGateway: checkAll, checkStateFirst: checkState } =
        await import('./daemon/doctor/gateway-check.ts');
      const check = async (path: string): Promise<unknown> => checkAll(path, process.env, signal);
      return beginSetup({ path: await configPath(parsed.configFile), check, checkState }, from, signal);
    },
    scan: async (...order) => (await import('./daemon/support/scan.ts')).scanForSensors(...order),
    support: async () => openSupport(parsed.configFile),
    config: configRoom(parsed.configFile, signal),
  };
  return await runCommand(parsed, context);
}

/** Files of the agent are never writable by others, whatever umask it was started with. */
function refuseWritesOfOthers(): void {
  const before = process.umask(0o022);
  process.umask(before | 0o022);
}

/** Returns undefined if the directory was removed. Another one is entered then, since no worker starts in a removed one. */
function workingDirectory(): string | undefined {
  try {
    return process.cwd();
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT') throw error;
    process.chdir('/');
    return undefined;
  }
}

/** Returns the purpose shown to other processes while this one works: the command, without possible secrets. */
function purposeOf(wanted: Invocation): string {
  if (wanted.kind !== 'command') return 'agent';
  const { command, typed } = wanted;
  const [board = ''] = command.group === 'Boards' ? typed.operands : [];
  return `agent ${command.name} ${board}`.trim();
}

function configRoom(typed: string | undefined, signal: AbortSignal): CliContext['config'] {
  return {
    check: async (around) =>
      around.kind === 'gateway'
        ? checkOnGateway(await configPath(typed), signal)
        : checkElsewhere(await checkedPath(typed, around), around),
    show: async () => showConfig(await configPath(typed)),
    schema: async () => (await import('./config/schema/json-schema.ts')).configJsonSchema(),
  };
}

async function configPath(typed: string | undefined): Promise<string> {
  const named = typed ?? process.env['THING_AGENT_CONFIG'] ?? '';
  if (named !== '') return named;
  return (await import('./config/read-config.ts')).DEFAULT_CONFIG_PATH;
}

async function openSupport(typed: string | undefined): ReturnType<CliContext['support']> {
  const support = await import('./daemon/support/support.ts');
  return support.openSupport(await configPath(typed), process.env);
}

/** A running daemon can be used even while the configuration file is invalid. */
async function connect(load: () => Promise<LoadedConfig>, signal: AbortSignal): ReturnType<CliContext['connect']> {
  const { connectToDaemon } = await import('./control/client/control-client.ts');
  try {
    return await connectToDaemon((await load()).config.paths.run, {}, signal);
  } catch (error) {
    const { ConfigError } = await import('./config/errors.ts');
    if (!(error instanceof ConfigError)) throw error;
    const { findRunDirectory } = await import('./config/read-config.ts');
    const named = process.env['RUNTIME_DIRECTORY'] ?? (await findRunDirectory(error.path));
    const daemon = await connectToDaemon(named ?? DEFAULT_RUN_DIRECTORY, {}, signal);
    if (daemon !== undefined) return daemon;
    throw error;
  }
}

function around(log: Log): Runtime {
  return { environment: process.env, clock: systemClock, random: Math.random, log, agentVersion };
}

async function runDaemon(load: () => Promise<LoadedConfig>, signal: AbortSignal): Promise<number> {
  process.umask(0o022); // a stricter one hides what other programs are meant to read
  const loaded = await load();
  const { createLog } = await import('./system/log/pino-log.ts');
  const world = around(createLog(loaded.config.log, process.env));
  const { connectServiceManager } = await import('./system/processes/systemd-notify.ts');
  const { Daemon } = await import('./daemon/cycles/run-daemon.ts');
  const options = {
    loaded,
    reload: load,
    world,
    manager: connectServiceManager(process.env, world.log),
    onReload: onHangup,
    isReplaced: () => isGone(process.argv[1] ?? ''),
  };
  try {
    await new Daemon(options, signal).run();
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return 0;
}

/** False if a failing disk gives no answer. */
function isGone(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) === undefined;
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    return false;
  }
}

async function loadFrom(typed: string | undefined): Promise<LoadedConfig> {
  const { loadConfig } = await import('./config/load-config.ts');
  return loadConfig(await configPath(typed), process.env);
}

async function loadPartFrom(typed: string | undefined, problem: AgentError): Promise<LoadedConfig> {
  const { loadValidPart } = await import('./config/load-valid-part.ts');
  return loadValidPart(await configPath(typed), process.env, problem);
}

function onHangup(listener: () => void): Disposable {
  process.on('SIGHUP', listener);
  return { [Symbol.dispose]: () => void process.off('SIGHUP', listener) };
}

/** In an image it has its place there, unless it was named. */
async function checkedPath(typed: string | undefined, around: CheckLocation): Promise<string> {
  const path = await configPath(typed);
  const root = around.kind === 'gateway' ? undefined : around.root;
  if (root === undefined) return path;
  const { pathInImage } = await import('./config/check/check-image.ts');
  return pathInImage(root, path);
}

/** On a machine that is not a gateway. */
async function checkElsewhere(path: string, around: FileContext): ReturnType<CliContext['config']['check']> {
  const { checkConfig: check } = await import('./config/check/check-config.ts');
  const { ConfigError } = await import('./config/errors.ts');
  const { problems, warnings } = await check(path, process.env, around);
  if (problems.length > 0) throw new ConfigError('config-invalid', path, problems);
  return { path, warnings: warnings.map(({ message }) => message) };
}

async function checkOnGateway(path: string, signal: AbortSignal): ReturnType<CliContext['config']['check']> {
  return (await import('./daemon/doctor/gateway-check.ts')).checkOnGateway(path, process.env, signal);
}

async function showConfig(path: string): ReturnType<CliContext['config']['show']> {
  const { effectiveConfig, showConfig: show } = await import('./config/load-config.ts');
  return { text: await show(path, process.env), value: await effectiveConfig(path, process.env) };
}
