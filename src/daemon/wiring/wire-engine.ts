import type { Config } from '../../config/config.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import type { AgentPorts } from '../../helper/agent/port-server.ts';
import { RemoteBoards } from '../../helper/agent/remote-boards.ts';
import { RemoteEngine, RemoteUpdater } from '../../helper/agent/remote-engine.ts';
import { HelperError } from '../../helper/errors.ts';
import { helperVerbs } from '../../helper/verbs.ts';
import type { Board } from '../../mcu/connection.ts';
import { createBoard, flashable } from '../../mcu/create-board.ts';
import type { FlashableBoard } from '../../mcu/create-board.ts';
import { boardImageReader } from '../../mcu/images/board-image.ts';
import type { ReadBoardImage } from '../../mcu/images/board-image.ts';
import type { BoardSettings } from '../../mcu/settings.ts';
import type { leftByUpdates } from '../../package/left-by-updates.ts';
import { LinuxMachine } from '../../system/processes/machine.ts';
import type { HookPort } from '../../update/hooks/hooks.ts';
import type { Journal } from '../../update/journal/journal.ts';
import type { Bootloader, Machine, Target } from '../../update/ports.ts';
import { boardNamed } from '../board-files.ts';
import type { History } from '../history/history.ts';
import type { SecurityLog } from '../security/security-log.ts';
import type { BoardRoom } from './board-room.ts';
import { hasBootloader } from './slot-settings.ts';
import type { Trust } from './trust.ts';
import type { UpdateRoom } from './update-room.ts';
import type { Before, World } from './wiring.ts';

/** The engine of updates, in this process or in the helper. */
export interface EngineWiring {
  readonly journal: Journal;
  /** What this process installs on: nothing where the helper does. */
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
  readonly leftByUpdates: () => ReturnType<typeof leftByUpdates>;
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

/** Where there is a helper, what installs is not even loaded. */
export async function wireEngine(deps: EngineWiringDeps, before: Journal | undefined): Promise<EngineWiring> {
  const { config, world, trust, security, history, agentPorts, remote } = deps;
  const lines = await boardLines(config, world);
  if (remote !== undefined) return remoteEngine(deps, remote, lines);
  const { engineOf, packagesLeft } = await import('./engine.ts');
  const flashableOf = ({ name }: BoardSettings): FlashableBoard => flashable(boardNamed(name, lines).board);
  const machine = new LinuxMachine(config.system);
  const own = { config, world, trust, security, history, machine };
  const engine = await engineOf({ ...own, journal: before, flashableOf, ports: agentPorts });
  const { journal, targets, bootloader, updater, boards } = engine;
  return {
    journal,
    boards: lines,
    boardRoom: boards,
    targets,
    machine,
    bootloader,
    updater,
    remote,
    leftByUpdates: async () => packagesLeft(config),
    examineEngine: async (signal) => {
      const { examineEngine } = await import('../doctor/engine-checks.ts');
      return examineEngine({ config, bootloader }, signal);
    },
  };
}

function remoteEngine(
  { config, world, agentPorts }: EngineWiringDeps,
  remote: RemoteEngine,
  boards: ReadonlyMap<string, BoardLine>,
): EngineWiring {
  const { clock } = world;
  const ports = { ...agentPorts, board: (name: string): Board => boardNamed(name, boards).board };
  const updater = new RemoteUpdater({ engine: remote, ports, policy: config.update, clock });
  const own = new LinuxMachine(config.system);
  return {
    journal: remote.journal,
    boards,
    targets: new Map(),
    boardRoom: new RemoteBoards(remote.client, ports, boards.size > 0),
    machine: {
      bootId: async () => own.bootId(),
      reboot: async (_argument, signal) => {
        await remote.client.order(helperVerbs.reboot, {}, { ports }, signal);
      },
    },
    bootloader: config.targets.some(hasBootloader) ? remote.bootloader : undefined,
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
