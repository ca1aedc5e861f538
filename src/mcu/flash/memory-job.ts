import type { Connection } from '../connection.ts';
import { hex, McuError } from '../errors.ts';
import { sliceOf } from '../images/image.ts';
import type { Image } from '../images/image.ts';
import { blankOf, isIn, joined, sampleOf } from './chip-memory.ts';
import type { ChipMemory, Run, Unit } from './chip-memory.ts';
import type { OnFlashProgress } from './flash.ts';

/** The known content of the chip. A wrong guess only costs time. */
export type KnownContents =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'guess'; readonly image: Image }
  | { readonly kind: 'read'; readonly memory: Uint8Array; readonly start: number };

const maxTries = 5;
const maxRounds = 8;
/** One digest covers at most this, since the chip reports no progress while it works. */
const maxDigestBytes = 1024 * 1024;

/**
 * Brings the units of one image into a chip. The unit without which nothing starts is parked before the first change,
 * and gets its own content last. A unit counts as written only after it was compared. If commands carry no checksum, a
 * damaged one may have changed another unit, so suspect units are compared again before the end.
 */
export class MemoryJob {
  readonly units: readonly Unit[];
  readonly #memory: ChipMemory;
  readonly #connection: Connection;
  readonly #report: OnFlashProgress;
  readonly #totalBytes: number;
  readonly #guard: Unit | undefined;
  readonly #written = new Set<number>();
  readonly #suspects = new Set<Unit>();
  /** The content that distinguishes the board that is written: a parked guard unit, or all other units. */
  #mark: 'none' | 'parked' | 'rest' = 'none';
  /** The content of the guard unit that was read before the first change. */
  #found: Unit | undefined;
  #doneBytes = 0;
  /** The number of units that were written but did not hold their content. */
  rewritten = 0;

  constructor(connection: Connection, memory: ChipMemory, image: Image, report: OnFlashProgress) {
    this.#connection = connection;
    this.#memory = memory;
    this.#report = report;
    this.units = memory.unitsOf(image);
    this.#totalBytes = this.units.reduce((sum, unit) => sum + unit.bytes.byteLength, 0);
    const { guardOf, parked } = memory.session;
    const guard =
      parked === undefined
        ? undefined
        : guardOf(
            this.units.map(({ region }) => region),
            image,
          );
    this.#guard = this.units.find(({ region }) => region.start === guard?.start);
  }

  get unitsWritten(): number {
    return this.#written.size;
  }

  async bringUpToDate(
    known: KnownContents,
    beforeWriting: (() => Promise<void>) | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    this.#connection.onReturn = async (again) => this.#requireSame(again);
    try {
      await this.#bringUpToDate(known, beforeWriting, signal);
    } finally {
      this.#connection.onReturn = undefined;
    }
  }

  async #bringUpToDate(
    known: KnownContents,
    beforeWriting: (() => Promise<void>) | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const guard = this.#guard;
    if (guard !== undefined && known.kind === 'read') {
      const { start, end } = guard.region;
      this.#found = { ...guard, bytes: known.memory.subarray(start - known.start, end - known.start) };
    }
    let pending = await this.#different(known, signal);
    for (let round = 0; this.#suspects.size > 0; round += 1) {
      if (round >= maxRounds)
        throw new McuError('board-timeout', 'the port was lost each time the memory was compared');
      pending = await this.#compareSuspects(signal);
    }
    if (pending.length > 0) await beforeWriting?.();
    for (let round = 0; pending.length > 0; round += 1) {
      if (round >= maxRounds) throw new McuError('board-mismatch', 'the contents of the board do not stay');
      const rest = pending.filter((unit) => unit !== guard);
      if (rest.length > 0) await this.#writeRest(rest, signal);
      this.#mark = 'rest';
      if (guard !== undefined) await this.#writeAll([guard], signal);
      this.#mark = 'none';
      pending = await this.#compareAtTheEnd(signal);
    }
  }

  /**
   * After the port has returned, no unit counts as compared. A board without the mark is another board, and is left
   * alone.
   */
  async #requireSame(signal: AbortSignal): Promise<void> {
    for (const unit of this.units) this.#suspects.add(unit);
    const connection = this.#connection;
    const marks = this.#memory.canCompare ? this.#marksOfBoard() : [];
    if (marks.length === 0) return;
    const { onReturn } = connection;
    connection.onReturn = undefined;
    for (const units of marks) {
      const isSame = await this.#holds(units, signal);
      connection.onReturn = isSame ? onReturn : undefined;
      if (isSame) return;
    }
    connection.isWriting = false;
    throw new McuError('board-changed', 'after the port has returned, it leads to another board than before');
  }

  /** Returns the contents of which the board that is written shows one. None if they are unknown. */
  #marksOfBoard(): readonly (readonly Unit[])[] {
    const guard = this.#guard;
    if (guard === undefined) return [];
    if (this.#mark === 'rest') return [this.units.filter((unit) => unit !== guard)];
    if (this.#mark === 'parked') return [[this.#parkedGuard(guard)]];
    return this.#found === undefined ? [] : [[this.#found], [this.#parkedGuard(guard)], [blankOf(guard)]];
  }

  /**
   * Throws unless the write of this image has begun on the board: its guard unit is parked or erased, or each other unit
   * holds the image, or a previous one.
   */
  async requireBegun(previous: readonly Image[], signal: AbortSignal): Promise<void> {
    const guard = this.#guard;
    if (guard === undefined || !this.#memory.canRead) return;
    for (const parked of [this.#parkedGuard(guard), blankOf(guard)]) if (await this.#holds([parked], signal)) return;
    let rest: readonly Unit[] = this.units.filter((unit) => unit !== guard);
    rest = await this.#memory.differing(rest, signal);
    for (const image of previous) {
      const held = rest.map(({ region }) => ({ region, bytes: sliceOf(image, region.start, region.end) }));
      rest = await this.#memory.differing(held, signal);
    }
    if (rest.length === 0) return;
    throw new McuError('board-changed', 'the board holds another program than the one whose write was interrupted');
  }

  /** True if the chip holds these units. A damaged answer can make a comparison fail, so it is repeated. */
  async #holds(units: readonly Unit[], signal: AbortSignal): Promise<boolean> {
    return (await this.#memory.differing(await this.#memory.differing(units, signal), signal)).length === 0;
  }

  /** Returns the number of units that differ, or undefined if the protocol cannot compare. */
  async countDifferent(signal: AbortSignal): Promise<number | undefined> {
    return this.#memory.canCompare ? (await this.#compare(this.units, signal)).length : undefined;
  }

  /** Writes everything except the guard unit, until no unit is suspect. The board is parked during that. */
  async #writeRest(rest: readonly Unit[], signal: AbortSignal): Promise<void> {
    const guard = this.#guard;
    let pending = rest;
    for (let round = 0; pending.length > 0; round += 1) {
      if (round >= maxRounds) throw new McuError('board-mismatch', 'the contents of the board do not stay');
      if (guard !== undefined) await this.#park(guard, signal);
      this.#mark = 'parked';
      await this.#writeAll(pending, signal);
      pending = (await this.#compareSuspects(signal)).filter((unit) => unit !== guard);
    }
  }

  async #writeAll(units: readonly Unit[], signal: AbortSignal): Promise<void> {
    for (const run of joined(units, this.#memory.session.runBytes ?? 0)) {
      await this.#writeVerified(run, signal);
      for (const { region } of run.units) this.#written.add(region.start);
      this.#doneBytes = Math.min(this.#totalBytes, this.#doneBytes + run.bytes.byteLength);
      this.#report({ phase: 'writing', doneBytes: this.#doneBytes, totalBytes: this.#totalBytes });
    }
  }

  async #park(guard: Unit, signal: AbortSignal): Promise<void> {
    const parked = this.#parkedGuard(guard);
    if (this.#memory.canCompare && (await this.#memory.holds(parked, signal))) return;
    await this.#writeVerified({ ...parked, units: [parked] }, signal);
  }

  #parkedGuard(guard: Unit): Unit {
    const { parked } = this.#memory.session;
    const bytes = new Uint8Array(guard.bytes.byteLength).fill(0xff);
    if (parked instanceof Uint8Array) bytes.set(parked);
    return { region: guard.region, bytes };
  }

  /** Writes a run and compares it, immediately if the chip computes digests. Repeats the units that are wrong. */
  async #writeVerified(run: Run, signal: AbortSignal): Promise<void> {
    let pending: readonly Unit[] = run.units;
    for (let tries = 0; tries < maxTries; tries += 1) {
      const failuresBefore = this.#connection.failures;
      for (const part of joined(pending, this.#memory.session.runBytes ?? 0)) await this.#memory.writeRun(part, signal);
      const repeated = this.#connection.failures !== failuresBefore;
      if (!this.#memory.canCompare) return;
      // a damaged answer can make a comparison fail, so the question is repeated before a unit is written again
      const doubtful = await this.#memory.differing(pending, signal);
      const different = await this.#memory.differing(doubtful, signal);
      for (const unit of pending) {
        const held = !different.includes(unit);
        if (repeated || !held) this.#suspect(unit, held);
      }
      if (different.length === 0) return;
      pending = different;
      this.rewritten += different.length;
    }
    throw new McuError('board-mismatch', `the memory at ${hex(run.region.start)} does not hold the written data`);
  }

  /**
   * Notes the units that a damaged command may have changed, if commands carry no checksum. If the write succeeded but
   * the unit does not hold it, it may have gone anywhere; if the turn failed otherwise, at worst one bit of the address
   * was wrong.
   */
  #suspect(unit: Unit, held: boolean): void {
    if (this.#memory.session.checksFrames) return;
    for (const other of this.units) {
      const flipped = other.region.start ^ unit.region.start;
      if (!held || (flipped & (flipped - 1)) === 0) this.#suspects.add(other);
    }
  }

  /**
   * Compares units again at the end. With a digest, which costs little, all of them, since a damaged command may also
   * have erased too much.
   */
  async #compareAtTheEnd(signal: AbortSignal): Promise<Unit[]> {
    if (this.#memory.session.digest === undefined) return this.#compareSuspects(signal);
    this.#suspects.clear();
    return (await this.#holdsAll(signal)) ? [] : this.#compare(this.units, signal);
  }

  async #compareSuspects(signal: AbortSignal): Promise<Unit[]> {
    const suspects = this.units.filter((unit) => this.#suspects.has(unit));
    this.#suspects.clear();
    return this.#compare(suspects, signal);
  }

  async #different(known: KnownContents, signal: AbortSignal): Promise<readonly Unit[]> {
    if (!this.#memory.canCompare) return this.units;
    if (known.kind === 'read') {
      return this.units.filter(({ region, bytes }) => {
        const there = known.memory.subarray(region.start - known.start, region.end - known.start);
        return Buffer.compare(there, bytes) !== 0;
      });
    }
    const same = new Set<Unit>();
    const likely = known.kind === 'guess' ? this.units.filter((unit) => isIn(known.image, unit)) : this.units;
    const sample = known.kind === 'guess' ? [] : sampleOf(this.units);
    await this.#compareSample(sample, same, signal);
    if (same.size * 2 >= sample.length) {
      const { digest } = this.#memory.session;
      if (digest !== undefined && (await this.#holdsAll(signal))) return [];
      // with digests, runs without gaps are faster than leaving out the compared units
      const others = digest === undefined ? likely.filter((unit) => !sample.includes(unit)) : likely;
      await this.#addSame(others, same, signal);
    }
    const different = this.units.filter((unit) => !same.has(unit));
    this.#doneBytes = this.#totalBytes - different.reduce((sum, unit) => sum + unit.bytes.byteLength, 0);
    return different;
  }

  /** Compares the sample until it is clear that most of it differs. */
  async #compareSample(sample: readonly Unit[], same: Set<Unit>, signal: AbortSignal): Promise<void> {
    for (const [index, unit] of sample.entries()) {
      const different = index - same.size;
      if (different * 2 > sample.length) return;
      await this.#addSame([unit], same, signal);
    }
  }

  async #holdsAll(signal: AbortSignal): Promise<boolean> {
    for (const run of joined(this.units, maxDigestBytes)) if (!(await this.#memory.holds(run, signal))) return false;
    return true;
  }

  async #addSame(units: readonly Unit[], same: Set<Unit>, signal: AbortSignal): Promise<void> {
    const different = new Set(await this.#compare(units, signal));
    for (const unit of units) if (!different.has(unit)) same.add(unit);
  }

  async #compare(units: readonly Unit[], signal: AbortSignal): Promise<Unit[]> {
    const different: Unit[] = [];
    let doneBytes = 0;
    for (const run of joined(units, this.#memory.compareBytes)) {
      different.push(...(await this.#memory.differing(run.units, signal)));
      doneBytes += run.bytes.byteLength;
      this.#report({ phase: 'comparing', doneBytes, totalBytes: this.#totalBytes });
    }
    return different;
  }
}
