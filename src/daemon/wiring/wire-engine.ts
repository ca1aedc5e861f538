import type { Config } from '../../config/config.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import type { AgentPorts } from '../../helper/agent/port-server.ts';
import { RemoteBoards } from '../../helper/agent/remote-boards.ts';
import { RemoteEngine, RemoteUpdater } from '../../helper/agent/remote-engine.ts';
import { HelperError } from '../../helper/errors.ts';
import { helperVerbs } from '../../helper/verbs.ts';
import type { Board } from '../../mcu/connection.ts';
import { createBoard, flashable } from '../../mcu/create-board.ts';
import { boardImageReader } from '../../mcu/mcu-target.ts';
import type { ReadBoardImage } from '../../mcu/mcu-target.ts';
import { LinuxMachine } from '../../system/processes/machine.ts';
import type { HookPort } from '../../update/hooks/hooks.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { Bootloader, Machine, Target } from '../../update/ports.ts';
import { boardNamed } from '../board-files.ts';
import { examineEngine } from '../doctor/engine-checks.ts';
import type { History } from '../history/history.ts';
import { JournalWithHistory } from '../history/journal-with-history.ts';
import { KeptBoards } from '../kept-boards.ts';
import type { SecurityLog } from '../security/security-log.ts';
import type { BoardRoom } from './board-room.ts';
import { openJournal, packagesLeft, targetsOf, wireBoards, wirePackages, wireSlots, wireUpdater } from './engine.ts';
import type { Trust } from './trust.ts';
import type { UpdateRoom } from './update-room.ts';
import type { Before, World } from './wiring.ts';

/** The engine of updates, in this process or in the helper. */
export interface EngineWiring {
  readonly journal: Journal;
  readonly targets: ReadonlyMap<string, Target>;
  readonly machine: Machine;
  /** The boards by the name of their target. */
  readonly boards: ReadonlyMap<string, BoardLine>;
  readonly boardRoom: BoardRoom;
  /** Undefined: no target of kind slots is configured. */
  readonly bootloader: Pick<Bootloader, 'bootedSlot' | 'inspect'> | undefined;
  /** Undefined: no target is configured. */
  readonly updater: UpdateRoom | undefined;
  /** Undefined: this process installs by itself. */
  readonly remote: RemoteEngine | undefined;
  /** What updates left of the packages that are targets, by the names of these. */
  readonly leftByUpdates: () => ReturnType<typeof packagesLeft>;
  /** What `doctor` says about slots and boot environment. */
  readonly examineEngine: (signal: AbortSignal) => Promise<readonly DoctorFinding[]>;
}

/** A board that this process can talk to, and the reader of its images. */
export interface BoardLine {
  readonly board: Board;
  readonly readImage: ReadBoardImage;
}

interface Notes {
  readonly world: World;
  readonly security: SecurityLog;
  readonly history: History;
}

interface EngineWiringDeps extends Notes {
  readonly config: Config;
  readonly trust: Trust;
  readonly agentPorts: Omit<AgentPorts, 'board'> & { readonly hooks: HookPort };
  readonly remote: RemoteEngine | undefined;
}

/**
 * The helper, if one is configured. A reload keeps the link to it. Throws `helper-refused` if a reload would add,
 * remove or move the helper.
 */
export async function findRemote(
  { system }: Config,
  before: Before | undefined,
  { world, security, history }: Notes,
): Promise<RemoteEngine | undefined> {
  const path = system.helper;
  if (before !== undefined && before.remote?.path !== path)
    throw new HelperError('helper-refused', 'whether there is a helper is decided at the start: restart the agent');
  if (before?.remote !== undefined || path === undefined) return before?.remote;
  const { clock, log } = world;
  const remote = new RemoteEngine({
    path,
    clock,
    log,
    onSecurity: ({ event, which, detail }) =>
      void (which === undefined ? security.record(event, detail) : security.recordOnce(event, which, detail)),
    onJournal: (told) => void history.note(told),
    onlyLooks: world.onlyLooks,
  });
  await remote.journal.refresh();
  return remote;
}

export async function wireEngine(deps: EngineWiringDeps, journal: Journal | undefined): Promise<EngineWiring> {
  const { config, world, remote } = deps;
  const machine = new LinuxMachine(config.system);
  const { slots, bootloader } = await wireSlots(config, world, machine);
  const boards = await boardLines(config, world);
  const kept = wireBoards(config, ({ name }) => flashable(boardNamed(name, boards).board));
  const targets = targetsOf(slots, kept, wirePackages(config, world));
  if (remote !== undefined) return { boards, targets, ...remoteEngine(deps, remote, boards, slots.length > 0) };
  const { security, history, trust, agentPorts } = deps;
  const own = journal ?? new JournalWithHistory(await openJournal(config, world.log, security), history);
  const engine = { journal: own, config, world, targets, machine, bootloader, trust, security, ...agentPorts };
  return {
    journal: own,
    boards,
    boardRoom: new KeptBoards({ config, journal: own, boards: kept, security, log: world.log }),
    targets,
    machine,
    bootloader,
    updater: targets.size === 0 ? undefined : wireUpdater(engine),
    remote,
    leftByUpdates: async () => packagesLeft(config),
    examineEngine: async (signal) => examineEngine({ config, bootloader }, signal),
  };
}

function remoteEngine(
  { config, world, agentPorts }: EngineWiringDeps,
  remote: RemoteEngine,
  boards: ReadonlyMap<string, BoardLine>,
  hasSlots: boolean,
): Omit<EngineWiring, 'boards' | 'targets'> {
  const { clock } = world;
  const ports = { ...agentPorts, board: (name: string): Board => boardNamed(name, boards).board };
  const updater = new RemoteUpdater({ engine: remote, ports, policy: config.update, clock });
  const own = new LinuxMachine(config.system);
  return {
    journal: remote.journal,
    boardRoom: new RemoteBoards(remote.client, ports, boards.size > 0),
    machine: {
      bootId: async () => own.bootId(),
      reboot: async (_argument, signal) => {
        await remote.client.order(helperVerbs.reboot, {}, { ports }, signal);
      },
    },
    bootloader: hasSlots ? remote.bootloader : undefined,
    updater: config.targets.length === 0 ? undefined : updater,
    remote,
    leftByUpdates: async () => remote.leftByUpdates,
    examineEngine: async (signal) => remote.examine(signal),
  };
}

async function boardLines({ targets }: Config, world: World): Promise<ReadonlyMap<string, BoardLine>> {
  const lines = new Map<string, BoardLine>();
  for (const target of targets) {
    if (target.kind !== 'mcu') continue;
    lines.set(target.name, { board: await createBoard(target, world), readImage: boardImageReader(target) });
  }
  return lines;
}
