import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { Flushes, survivors } from './disk/cut.ts';
import type { Cut, Survivor } from './disk/cut.ts';
import { partitionOf } from './disk/recording.ts';
import type { Partition, Recording } from './disk/recording.ts';
import { VirtualDisk } from './disk/virtual-disk.ts';
import { WholeSlot } from './disk/whole-slot.ts';
import type { SlotPart } from './disk/whole-slot.ts';
import { boardProgramAt } from './gateways/gateway-board.ts';
import { GrubProgram } from './gateways/grub-choice.ts';
import type { GrubChoice } from './gateways/grub-choice.ts';

/** More than any bootloader has attempts for both slots: the start after all of them is among these. */
const STARTS = 5;
/** In memory, where there is such a place: cuts are made in it by the thousand. */
const FAST_FOLDER = '/dev/shm';

export interface Judgement {
  readonly cut: Cut;
  /** The slots that would be started, one after the other, if none came up. */
  readonly starts: readonly string[];
  /** Versions whose image is, byte for byte, in the slot that starts. */
  readonly holds: readonly string[];
  /** The version whose program a board has, or `a part` of one; undefined without a board. */
  readonly board: string | undefined;
  readonly phase: string;
  /** Error output of GRUB. */
  readonly complaint: string | undefined;
  /** Forbidden outcomes. Empty: the interruption is harmless. */
  readonly violations: readonly Violation[];
}

export type Violation =
  | 'starts nothing'
  | 'starts a broken slot'
  | 'falls back to a broken slot'
  | 'starts another version';

/** Judges the disks that power cuts leave behind, without starting them. Cuts must come in the order of their events. */
export class Judge implements Disposable {
  readonly #recording: Recording;
  readonly #flushes: Flushes;
  readonly #folder: string;
  readonly #disk: VirtualDisk;
  readonly #grub: GrubProgram;
  readonly #boot: Partition;
  readonly #slots: readonly WholeSlot[];
  readonly #masks = new Map<number, Uint8Array>();
  readonly #choices = new Map<string, GrubChoice>();
  #kept = 0;
  #bootVersion = 0;

  constructor(recording: Recording) {
    this.#recording = recording;
    this.#flushes = new Flushes(recording.events);
    this.#folder = mkdtempSync(join(FAST_FOLDER, 'boots-'));
    const path = join(this.#folder, 'disk.img');
    this.#disk = VirtualDisk.of(recording.base, path);
    this.#grub = new GrubProgram(path);
    this.#boot = partitionOf(recording, 'boot');
    this.#slots = WholeSlot.both(path, recording);
  }

  /** Number of starts of GRUB. */
  get starts(): number {
    return this.#grub.count;
  }

  async judge(cut: Cut): Promise<Judgement> {
    this.#advance(this.#flushes.durableBefore(cut.event));
    const left = survivors(this.#recording, this.#flushes, cut);
    for (const survivor of left) this.#lay(survivor);
    const { starts, complaint } = await this.#choose(left);
    const violations = this.#violations(cut, starts);
    const holds = this.#contentOf(starts[0]);
    for (const slot of this.#slots) slot.takeAway();
    const phase = phaseAt(this.#recording, cut.position);
    const board = boardProgramAt(this.#recording, cut.position);
    return { cut, starts, holds, board, phase, complaint, violations };
  }

  [Symbol.dispose](): void {
    this.#grub[Symbol.dispose]();
    this.#disk[Symbol.dispose]();
    rmSync(this.#folder, { recursive: true });
  }

  #contentOf(start: string | undefined): readonly string[] {
    return this.#slots.find(({ name }) => name === start)?.whole ?? [];
  }

  #violations(cut: Cut, starts: readonly string[]): readonly Violation[] {
    if (starts.some((start) => start !== 'A' && start !== 'B')) return ['starts nothing'];
    const contents = starts.map((start) => this.#contentOf(start));
    if (contents[0]?.length === 0) return ['starts a broken slot'];
    const found: Violation[] = [];
    if (contents.some((versions) => versions.length === 0)) found.push('falls back to a broken slot');
    const { known, wanted } = knowledgeAt(this.#recording, cut.position);
    if (contents[0]?.some((version) => version === known || version === wanted) !== true) {
      found.push('starts another version');
    }
    return found;
  }

  #advance(to: number): void {
    for (; this.#kept < to; this.#kept += 1) {
      const event = this.#recording.events[this.#kept];
      if (event === undefined || event.kind === 'flush') continue;
      const survivor = { index: this.#kept, event };
      this.#disk.keep(survivor);
      const part = this.#partOf(survivor);
      part?.content.keep(survivor, this.#masksOf(survivor, part));
      this.#masks.delete(this.#kept);
      if (isIn(this.#boot, survivor)) this.#bootVersion = this.#kept;
    }
  }

  #lay(survivor: Survivor): void {
    const part = this.#partOf(survivor);
    part?.content.lay(survivor, this.#masksOf(survivor, part));
  }

  #partOf(survivor: Survivor): SlotPart | undefined {
    return this.#slots.map((slot) => slot.partOf(survivor)).find((part) => part !== undefined);
  }

  #masksOf({ index, event }: Survivor, { area, known: images }: SlotPart): Uint8Array {
    const known = this.#masks.get(index);
    if (known !== undefined) return known;
    const masks = images.compare(event.sector - area.sector, event.data);
    this.#masks.set(index, masks);
    return masks;
  }

  /**
   * Starts GRUB once for each content of its partition, as long as it prints no error and its script would see the
   * same: a slot is complete, or it is broken and its environment discards it. Otherwise starts it on this very disk.
   */
  async #choose(left: readonly Survivor[]): Promise<GrubChoice> {
    const ofBoot = left.filter((survivor) => isIn(this.#boot, survivor));
    const broken = this.#slots.filter(({ whole }) => whole.length === 0).map(({ name }) => name);
    const key = `${this.#bootVersion}|${ofBoot.map(nameOf).join(' ')}|${broken.join(' ')}`;
    const known = this.#choices.get(key);
    if (known !== undefined) return known;
    for (const survivor of left) this.#disk.lay(survivor);
    this.#disk.guard(this.#boot.sector, this.#boot.sectors);
    const choice = await this.#grub.start(STARTS, broken.join(' '));
    this.#disk.takeAway();
    const isGivenUp = (name: string): boolean => choice.environment.includes(`\n${name}_OK=0\n`);
    if (choice.complaint === undefined && broken.every((name) => isGivenUp(name))) this.#choices.set(key, choice);
    return choice;
  }
}

function nameOf({ index, arrived }: Survivor): string {
  return arrived === undefined ? `${index}` : `${index}:${arrived.map(Number).join('')}`;
}

function isIn({ sector, sectors }: Partition, { event }: Survivor): boolean {
  return event.sector >= sector && event.sector < sector + sectors;
}

/** Returns the service's record and target at that point. Before the first request, the factory version runs. */
export function knowledgeAt(
  { happenings, images }: Pick<Recording, 'happenings' | 'images'>,
  position: number,
): { readonly known: string | undefined; readonly wanted: string | undefined } {
  let known = Object.keys(images)[0];
  let wanted: string | undefined;
  for (const happening of happenings) {
    if (happening.at > position) break;
    if (happening.kind === 'known') known = happening.thing.currentVersionId;
    if (happening.kind === 'wanted') wanted = happening.version;
  }
  return { known, wanted };
}

/** The agent's log line with its phase; before the first one, the name of the running program. */
const SAYS_PHASE = /\bagent\[\d+\]: .*\bphase=([a-z-]+)/;
const OTHERS: readonly (readonly [RegExp, string])[] = [
  [/^\*\*\* power/, 'bootloader'],
  [/\bsystemd\[1\]: /, 'start of Linux'],
];

const phasesByRecording = new WeakMap<Recording, readonly { readonly at: number; readonly phase: string }[]>();

/** Returns the gateway's phase according to its latest console output. */
export function phaseAt(recording: Recording, position: number): string {
  const phases = phasesByRecording.get(recording) ?? readPhases(recording);
  phasesByRecording.set(recording, phases);
  return phases.findLast(({ at }) => at <= position)?.phase ?? 'bootloader';
}

function readPhases({ happenings }: Recording): readonly { readonly at: number; readonly phase: string }[] {
  const phases: { readonly at: number; readonly phase: string }[] = [];
  for (const happening of happenings) {
    if (happening.kind !== 'line') continue;
    const { at, text } = happening;
    const said = SAYS_PHASE.exec(text)?.[1];
    const other = OTHERS.find(([pattern]) => pattern.test(text))?.[1];
    if (said !== undefined) phases.push({ at, phase: said });
    else if (other === 'bootloader') phases.push({ at, phase: other });
    else if (other !== undefined && phases.at(-1)?.phase === 'bootloader') phases.push({ at, phase: other });
  }
  return phases;
}
