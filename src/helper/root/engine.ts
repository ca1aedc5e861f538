import { dirname } from 'node:path';

import type { Config } from '../../config/config.ts';
import { closeStateDirectory } from '../../daemon/doctor/state-directory.ts';
import type { History } from '../../daemon/history/history.ts';
import { JournalWithHistory } from '../../daemon/history/journal-with-history.ts';
import { KeptBoards } from '../../daemon/kept-boards.ts';
import type { SecurityNotes } from '../../daemon/security/security-log.ts';
import {
  openJournal,
  targetsOf,
  wireBoards,
  wirePackages,
  wireSlots,
  wireTrust,
  wireUpdater,
} from '../../daemon/wiring/engine.ts';
import type { EngineWorld } from '../../daemon/wiring/engine.ts';
import { hookPrograms } from '../../daemon/wiring/settings.ts';
import type { Trust } from '../../daemon/wiring/trust.ts';
import type { Log } from '../../system/log/log.ts';
import { LinuxMachine } from '../../system/processes/machine.ts';
import type { HookName } from '../../update/hooks/hook-input.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { UpdateState } from '../../update/journal/state.ts';
import type { Bootloader, Machine } from '../../update/ports.ts';
import type { Updater } from '../../update/updater.ts';
import type { HelperNotes } from '../verbs.ts';
import { remoteHealth, remoteHooks, remoteMeteredLink, remoteService } from './agent-ports.ts';
import type { AskAgent } from './ask-agent.ts';
import { remoteBoards } from './remote-boards.ts';

/** Journal, keys, floors, slots and bootloader, for one connection of the agent. */
export interface Engine {
  readonly config: Config;
  readonly journal: Journal;
  readonly trust: Trust;
  readonly machine: Machine;
  readonly bootloader: Bootloader | undefined;
  /** Undefined: no target is configured. */
  readonly updater: Updater | undefined;
  readonly boards: KeptBoards;
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
): Promise<Engine> {
  const { log } = world;
  const { security } = listeners;
  await closeStateDirectory(config, log);
  const trust = wireTrust(config, world);
  const machine = new LinuxMachine(config.system);
  const { slots, bootloader } = await wireSlots(config, world, machine, runDirectoryOf(config));
  const flashable = remoteBoards(ask);
  const boards = wireBoards(config, ({ name }) => flashable({ name, clock: world.clock, log }));
  const targets = targetsOf(slots, boards, wirePackages(config, world));
  // the agent is told of each event after it is durable
  const note: History['note'] = async ({ event, after }) => listeners.onJournal(event, after);
  const journal = new JournalWithHistory(await openJournal(config, log, security), { note });
  const programs = hookPrograms(config);
  const wants = (hook: HookName): boolean => programs[hook] !== undefined;
  const longestMs = Math.max(0, ...Object.values(programs).map((program) => program?.timeoutMs ?? 0));
  const ports = {
    service: remoteService(ask),
    health: remoteHealth(ask, config),
    hooks: remoteHooks(ask, wants, longestMs),
    meteredLink: async (): Promise<string | undefined> => remoteMeteredLink(ask, ask.signal),
  };
  const parts = { journal, config, world, targets, bootloader, machine, trust, security, ...ports };
  return {
    config,
    journal,
    trust,
    machine,
    bootloader,
    updater: targets.size === 0 ? undefined : wireUpdater(parts),
    boards: new KeptBoards({ config, journal, boards, security, log }),
  };
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
