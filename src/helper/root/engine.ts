import { dirname, join } from 'node:path';

import type { Config } from '../../config/config.ts';
import { closeStateDirectory } from '../../daemon/doctor/state-directory.ts';
import type { History } from '../../daemon/history/history.ts';
import type { SecurityNotes } from '../../daemon/security/security-log.ts';
import { engineOf } from '../../daemon/wiring/engine.ts';
import type { Engine } from '../../daemon/wiring/engine.ts';
import { hookPrograms } from '../../daemon/wiring/settings.ts';
import { wireTrust } from '../../daemon/wiring/trust.ts';
import type { EngineWorld } from '../../daemon/wiring/wiring.ts';
import type { Log } from '../../system/log/log.ts';
import type { RunProgram } from '../../system/processes/child-process.ts';
import { LinuxMachine } from '../../system/processes/machine.ts';
import type { HookName } from '../../update/hooks/hook-input.ts';
import type { UpdateState } from '../../update/journal/state.ts';
import type { HelperNotes } from '../verbs.ts';
import { remoteConfigTrouble, remoteHealth, remoteHooks, remoteMeteredLink, remoteService } from './agent-ports.ts';
import type { AskAgent } from './ask-agent.ts';
import { MACHINE_SOCKET, outside } from './outside.ts';
import { remoteBoards } from './remote-boards.ts';

/** The engine for one connection of the agent, and how it asks systemd. */
export interface HelperEngine extends Engine {
  readonly askSystemd: RunProgram;
  /** Has a reboot been asked for, which is about to end this process? */
  readonly reboot: { readonly isBegun: boolean };
}

export interface EngineListeners {
  readonly onJournal: (event: HelperNotes['journal']['event'], state: UpdateState) => void;
  readonly security: SecurityNotes;
}

/**
 * Promise `helper`: opens the engine with the configuration that root wrote and reads. From the agent it takes only the
 * answers to `ask`.
 */
export async function openEngine(
  config: Config,
  world: EngineWorld,
  ask: AskAgent,
  listeners: EngineListeners,
): Promise<HelperEngine> {
  const { security } = listeners;
  await closeStateDirectory(config, world.log);
  const runDirectory = runDirectoryOf(config);
  const { run: askSystemd, startReboot } = outside(join(runDirectory, MACHINE_SOCKET));
  const reboot = { isBegun: false };
  const machine = new LinuxMachine({
    ...config.system,
    startReboot: async (...asked) => {
      reboot.isBegun = true;
      const result = await startReboot(...asked);
      reboot.isBegun = result.exitCode === 0;
      return result;
    },
  });
  const flashable = remoteBoards(ask);
  // the agent is told of each event after it is durable
  const note: History['note'] = async ({ event, after }) => listeners.onJournal(event, after);
  const programs = hookPrograms(config);
  const wants = (hook: HookName): boolean => programs[hook] !== undefined;
  const longestMs = Math.max(0, ...Object.values(programs).map((program) => program?.timeoutMs ?? 0));
  const engine = await engineOf({
    config,
    world,
    trust: wireTrust(config, world, { askSystemd }),
    machine,
    security,
    history: { note },
    runDirectory,
    flashableOf: ({ name }) => flashable({ name, clock: world.clock, log: world.log }),
    ports: {
      service: remoteService(ask),
      health: remoteHealth(ask, config),
      hooks: remoteHooks(ask, wants, longestMs),
      meteredLink: async () => remoteMeteredLink(ask, ask.signal),
      configTrouble: async () => remoteConfigTrouble(ask, ask.signal),
    },
  });
  return { ...engine, askSystemd, reboot };
}

/** The folder where only root may write, so that nobody else can replace anything. */
export function runDirectoryOf({ system }: Pick<Config, 'system'>): string {
  if (system.helper === undefined) throw new Error('a helper runs only where one is configured');
  return dirname(system.helper);
}

/** Reports security events to the agent, which keeps the security log, and to the helper's own log. */
export function toldSecurity(tell: (told: HelperNotes['security']) => void, log: Log): SecurityNotes {
  return {
    record: async (event, detail) => {
      log.warn({ event }, detail);
      tell({ event, detail });
    },
    recordOnce: async (event, which, detail) => {
      log.warn({ event }, detail);
      tell({ event, which, detail });
    },
    // not compared here: the agent keeps the log and reads the same keys
    compare: async () => {},
  };
}
