import type { SlotName } from '../../../../src/update/ports.ts';
import { BootMachine, deliveries } from '../../../fakes/machine/boot-machines.ts';
import type { BootKind, BootMemory, Delivery } from '../../../fakes/machine/boot-machines.ts';
import { ForgetfulFs, NO_FILE } from '../../../fakes/machine/memory/forgetful-fs.ts';
import { MemoryBoard } from '../../../fakes/machine/memory/memory-board.ts';
import type { BoardMemory } from '../../../fakes/machine/memory/memory-board.ts';
import { MemorySlots } from '../../../fakes/machine/memory/memory-slots.ts';
import { Power, seededRandom } from '../../../fakes/machine/power.ts';
import type { Faults } from '../faults.ts';
import { BOARD, BOOT_TARGET, FACTORY_APP, TARGET } from './catalog.ts';
import type { CatalogEntry } from './catalog.ts';
import { installedOf, PackageMachine } from './package-machine.ts';
import type { PackageMemory } from './package-machine.ts';
import { STATE, StateMount } from './state-mount.ts';

export const FACTORY_SERIAL_NUMBER = 'GW-1';
export const JOURNAL = `${STATE}/journal.json`;
export const IDENTITY = `${STATE}/identity.json`;
export const LISTS = [`${STATE}/trust.json`, `${STATE}/trust-copy.json`, `${STATE}/trust-revoked.json`] as const;

/** A journal that its medium has lost. */
export const GARBAGE = '{"format":1,"pha\0\0\0';

/** Longest absence of the state partition: this number of checks, and a moment. */
const MISSED_LOOKS = 6;
const LOOK_MS = 15 * 60_000;

/** Number of directories at the journal's path that the agent sets aside. */
const MOST_FOLDERS = 5;

/** Less than any image. */
const ROT_BYTES = 24;

/** State of a gateway that survives programs and power loss. */
export interface HardwareState {
  readonly files: Readonly<Record<string, string>>;
  readonly slots: Readonly<Record<SlotName, string>>;
  /** The second pair, if there is one. */
  readonly bootSlots: Readonly<Record<SlotName, string>> | undefined;
  readonly bootMemory: BootMemory | undefined;
  readonly booted: SlotName;
  readonly board: BoardMemory;
  readonly app: PackageMemory;
  readonly boots: number;
  readonly attempts: number;
  readonly flaps: number;
  readonly nowMs: number;
  readonly serialNumber: string;
  /** Offset of local time to UTC. */
  readonly zoneMinutes: number;
  /** Directories that replaced the journal. */
  readonly folders: number;
  /** Attempts whose result was reported to the application. */
  readonly told: readonly string[];
}

export function factoryState({ image, boot, meter }: CatalogEntry, delivery: Delivery | undefined): HardwareState {
  const slots = { A: image, B: '' };
  const board = { running: meter, payload: '', kept: undefined };
  return {
    board,
    app: installedOf(FACTORY_APP),
    files: {},
    slots,
    bootSlots: boot === '' ? undefined : { A: boot, B: '' },
    bootMemory: delivery && deliveries[delivery],
    booted: 'A',
    boots: 0,
    attempts: 0,
    flaps: 0,
    nowMs: 0,
    serialNumber: FACTORY_SERIAL_NUMBER,
    zoneMinutes: 0,
    folders: 0,
    told: [],
  };
}

/** A gateway without its programs. */
export class Hardware {
  readonly power = new Power();
  readonly disk: ForgetfulFs;
  readonly slots: MemorySlots;
  readonly bootSlots: MemorySlots | undefined;
  readonly boot: BootMachine;
  readonly board: MemoryBoard;
  readonly app: PackageMachine;
  readonly faults: Faults;
  readonly #seed: number;
  #random: () => number;
  boots: number;
  attempts: number;
  /** Number of health checks of a flapping image. */
  flaps: number;
  nowMs: number;
  serialNumber: string;
  zoneMinutes: number;
  folders: number;
  readonly told: Set<string>;
  /** Argument of the reboot command in this boot, if it was called. */
  rebootAsked: { readonly argument: string | undefined } | undefined;
  /** Called with the current content of its file. */
  onJournalLost: (text: string) => void = () => {};
  /** The state directory as the running program sees it. */
  readonly stateMount: StateMount;
  /** At its next start. */
  missesState = false;
  /** The last access to the disk failed. */
  diskRefuses = false;
  /** By its watchdog: no cut of the case. */
  wasReset = false;

  constructor(kind: BootKind, seed: number, faults: Faults, state: HardwareState) {
    const { power } = this;
    const random = (): number => this.#random();
    this.#seed = seed;
    this.#random = seededRandom(seed);
    this.faults = faults;
    this.disk = new ForgetfulFs(power, random, state.files);
    this.stateMount = new StateMount(this.disk, () => this.nowMs);
    this.slots = new MemorySlots(TARGET, state.slots, power, random);
    this.bootSlots = state.bootSlots && new MemorySlots(BOOT_TARGET, state.bootSlots, power, random);
    this.boot = new BootMachine({ kind, power, random, memory: state.bootMemory });
    this.boot.booted = state.booted;
    for (const pair of this.pairs) pair.booted = state.booted;
    this.board = new MemoryBoard(BOARD, state.board.running, power, state.board);
    this.board.trouble = () => faults.strikes('board-timeout');
    this.app = new PackageMachine(power, random, () => phaseIn(this.disk.read(JOURNAL)), state.app);
    this.boots = state.boots;
    this.attempts = state.attempts;
    this.flaps = state.flaps;
    this.nowMs = state.nowMs;
    this.serialNumber = state.serialNumber;
    this.zoneMinutes = state.zoneMinutes;
    this.folders = state.folders;
    this.told = new Set(state.told);
    this.disk.trouble = () => {
      const isFull = faults.strikes('disk-full');
      const isFailing = !isFull && faults.strikes('disk-error');
      this.diskRefuses = isFull || isFailing;
      if (isFull) return 'ENOSPC';
      return isFailing ? 'EIO' : undefined;
    };
    for (const pair of this.pairs) pair.trouble = () => faults.strikes('slot-error');
    this.app.trouble = () => faults.strikes('dpkg-failed');
    this.boot.trouble = () => faults.strikes('boot-write');
    this.boot.cannotSave = () => faults.strikes('boot-save');
  }

  get pairs(): readonly MemorySlots[] {
    return this.bootSlots === undefined ? [this.slots] : [this.slots, this.bootSlots];
  }

  get state(): HardwareState {
    const { disk, slots, boot, board, boots, attempts, flaps, nowMs, serialNumber, zoneMinutes, folders, told } = this;
    const { memory: bootMemory, booted } = boot;
    const contents = { A: slots.content('A'), B: slots.content('B') };
    return {
      files: disk.files,
      slots: contents,
      bootSlots: this.bootSlots && { A: this.bootSlots.content('A'), B: this.bootSlots.content('B') },
      bootMemory,
      booted,
      board: board.memory,
      app: this.app.memory,
      boots,
      attempts,
      flaps,
      nowMs,
      serialNumber,
      zoneMinutes,
      folders,
      told: [...told],
    };
  }

  get minuteOfDay(): number {
    return (Math.floor(this.nowMs / 60_000) + this.zoneMinutes) % (24 * 60);
  }

  /** The running image's version. */
  get running(): string {
    return this.slots.content(this.boot.booted);
  }

  /** Loses nondurable data at the n-th power loss. */
  forget(cut: number): void {
    this.disk.forget();
    for (const pair of this.pairs) pair.forget();
    this.app.forget();
    this.reseed(cut);
  }

  /** Makes the events after an interruption independent of the number of random draws before it. */
  reseed(cut: number): void {
    this.#random = seededRandom(this.#seed * 31 + cut);
  }

  /** No agent runs: its image never starts one, or there is none. */
  get isDead(): boolean {
    return this.running === '' || this.running.startsWith('dead');
  }

  /** An orderly shutdown. */
  sync(): void {
    this.disk.sync();
    this.app.sync();
    for (const pair of this.pairs) {
      pair.sync('A');
      pair.sync('B');
    }
  }

  /** Lets the bootloader choose and the kernel start; may be interrupted. */
  start(argument: string | undefined): void {
    this.rebootAsked = undefined;
    this.boots += 1;
    const started = this.boot.start(argument);
    for (const pair of this.pairs) pair.booted = started;
    this.#mountState();
    this.#age();
    this.power.step('the kernel starts');
  }

  /** The running image may fail to mount it. */
  #mountState(): void {
    const { running, disk, stateMount, faults } = this;
    const elsewhere = (): ForgetfulFs => new ForgetfulFs(this.power, () => this.#random());
    stateMount.mounted = running.startsWith('blind') ? elsewhere() : disk;
    const isMissed = faults.strikes('state-in-memory') || this.missesState;
    this.missesState = false;
    const missedLooks = isMissed ? 1 + Math.floor(this.#random() * MISSED_LOOKS) : 0;
    const missedMs = running.startsWith('volatile') ? Infinity : missedLooks * LOOK_MS;
    stateMount.missFor(missedMs, elsewhere());
    disk.unchangeable = Object.entries(stateTroubles).find(([image]) => running.startsWith(image))?.[1];
  }

  #age(): void {
    const { faults, boot, slots, disk } = this;
    const spare = boot.booted === 'A' ? 'B' : 'A';
    // The target of a manual rollback may have been written to while it ran: it boots all the same, and the report
    // mentions it.
    const isBeingStaged = /"phase":{"kind":"stag(?:ing|ed)","attempt":{[^}]*}[^}]*"by":"(?!rollback)/.test(
      disk.read(JOURNAL) ?? '',
    );
    if (faults.strikes('rot') && isBeingStaged && !boot.bootable.includes(spare)) {
      slots.rot(spare, Math.floor(this.#random() * ROT_BYTES));
    }
    const journal = disk.read(JOURNAL);
    const text = this.#exchanged(journal);
    if (text === undefined || text === journal) return;
    this.folders += Number(text === NO_FILE);
    disk.put(JOURNAL, text);
    this.onJournalLost(text);
  }

  /** The current content of the journal's file. */
  #exchanged(journal: string | undefined): string | undefined {
    const { faults } = this;
    const isLost = faults.strikes('journal-lost');
    const isNewer = faults.strikes('journal-newer');
    const isNoFile = faults.strikes('journal-no-file') && this.folders < MOST_FOLDERS;
    if (journal === undefined || journal === NO_FILE) return journal;
    if (isNoFile) return NO_FILE;
    if (isLost) return GARBAGE;
    return isNewer ? asOfNextVersion(journal) : journal;
  }
}

/** By the first word of an image: what it answers to a change in the state directory. */
const stateTroubles: Readonly<Record<string, string>> = { frozen: 'EROFS', stuffed: 'ENOSPC' };

/** As the guard of packages reads it. */
function phaseIn(journal: string | undefined): string | undefined {
  return /^{"format":1,"phase":{"kind":"([a-z-]*)"/.exec(journal ?? '')?.[1];
}

/** As a newer agent in the other slot might have left it. */
function asOfNextVersion(text: string): string {
  try {
    const { phase, ...parts } = JSON.parse(text) as Record<string, unknown>;
    const later = { ...(phase as object), kind: 'dreaming' };
    return JSON.stringify({ format: 1, phase: later, ...parts, dreams: [1] });
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
