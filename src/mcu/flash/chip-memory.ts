import type { Region } from '../chip.ts';
import type { Connection } from '../connection.ts';
import { hex, McuError } from '../errors.ts';
import { endOf, isBlank, sliceOf } from '../images/image.ts';
import type { Image } from '../images/image.ts';
import { withoutIo } from '../protocol.ts';
import type { BootPlan, Conversation, MemorySession, Session } from '../protocol.ts';
import type { KnownBy } from './known-by.ts';

/** A part of the flash memory that is erased and compared as a whole, and the bytes that it is to hold. */
export interface Unit {
  readonly region: Region;
  readonly bytes: Uint8Array;
}

/** Neighbouring units as one. */
export interface Run extends Unit {
  readonly units: readonly Unit[];
}

/** This number of units is compared to guess whether most of the image is already there. */
const sampleUnits = 8;
/** The flashing fails if one unit cannot be written in this number of attempts. */
const maxUnitTries = 8;
/** Reading fails for a block that still reads differently after this number of reads. */
const maxReadTries = 16;

/**
 * The flash memory of a chip behind a connection. Damaged turns are repeated by the connection, damaged contents here.
 */
export class ChipMemory {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  get session(): MemorySession {
    return memorySession(this.#connection.session);
  }

  get canRead(): boolean {
    return this.session.read !== undefined;
  }

  get canCompare(): boolean {
    return this.canRead || this.session.digest !== undefined;
  }

  /** Plans how the chip comes to start the image; most chips start what is in the one place for programs. */
  async planBoot(
    image: Image,
    toStay: boolean,
    signal: AbortSignal,
  ): Promise<Pick<BootPlan, 'image' | 'before'> & { readonly known: KnownBy }> {
    const plan = await this.#run(function* ask({ planBoot }) {
      return planBoot === undefined ? undefined : yield* planBoot(image, toStay);
    }, signal);
    return plan ?? { image, known: this.canCompare ? 'read-back' : 'sent', before: undefined };
  }

  /** The units that the image touches, with blank bytes where the image has none. */
  unitsOf(image: Image): Unit[] {
    const starts = new Map<number, Region>();
    for (const segment of image.segments) {
      const span = { start: segment.address, end: endOf(segment) };
      for (const region of this.session.unitsOf(span)) starts.set(region.start, region);
    }
    return [...starts.values()]
      .sort((a, b) => a.start - b.start)
      .map((region) => ({ region, bytes: sliceOf(image, region.start, region.end) }));
  }

  /**
   * Returns these units and the units next to them that hold the same program. Units behind a blank one are data of the
   * application.
   */
  programAround(units: readonly Unit[], memory: Uint8Array): Region[] {
    const { unitsOf, chip } = this.session;
    const { start: base, end: limit } = chip.application;
    const isHeld = (start: number, end: number): boolean => !isBlank(memory.subarray(start - base, end - base));
    const unitAt = (at: number): Region | undefined =>
      at < base || at >= limit ? undefined : unitsOf({ start: at, end: at + 1 }).find(({ end }) => at < end);
    const around = ({ start, end }: Region): Region => {
      let [first, last] = [start, end];
      for (let unit = unitAt(last); unit && isHeld(last, unit.end); unit = unitAt(last)) last = unit.end;
      for (let unit = unitAt(first - 1); unit && isHeld(unit.start, first); unit = unitAt(first - 1))
        first = unit.start;
      return { start: first, end: last };
    };
    const regions = units.map(({ region }) => region).filter(({ start, end }) => start >= base && end <= limit);
    return merged(merged(regions).map(around));
  }

  /**
   * Reads a region, so that no damaged answer is taken for the content of the chip. If answers carry no checksum, every
   * page with content, or next to one, is read again. Other blank bytes are accepted unless the line has shown an
   * error, so that a nearly empty chip costs only one pass.
   */
  async read(region: Region, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<Uint8Array> {
    const memory = new Uint8Array(region.end - region.start);
    const part = ({ start, end }: Region): Uint8Array => memory.subarray(start - region.start, end - region.start);
    const failuresBefore = this.#connection.failures;
    const blocks = blocksOf(region, this.session.blockBytes);
    const passes = this.session.checksFrames ? 1 : 2;
    for (const block of blocks) {
      part(block).set(await this.#readBlock(block, signal));
      onBytes((block.end - region.start) / passes);
    }
    if (this.session.checksFrames) return memory;
    const readAgain = async (block: Region): Promise<void> => {
      part(block).set(await this.#readUntilTwoAgree(block, Uint8Array.from(part(block)), signal));
      onBytes(memory.byteLength / 2 + (block.end - region.start) / 2);
    };
    const held = blocks.map((block) => !isBlank(part(block)));
    const doubtful = new Set(blocks.filter((_, index) => held.slice(Math.max(0, index - 1), index + 2).includes(true)));
    for (const block of doubtful) await readAgain(block);
    const wasDamaged = blocks.some((block, index) => held[index] === isBlank(part(block)));
    if (!wasDamaged && this.#connection.failures === failuresBefore) return memory;
    for (const block of blocks) if (!doubtful.has(block)) await readAgain(block);
    return memory;
  }

  /** True if the chip holds the bytes of the unit. Ends at the first block that differs. */
  async holds(unit: Unit, signal: AbortSignal): Promise<boolean> {
    const { start, end } = unit.region;
    if (this.session.digest !== undefined) {
      return this.#run(function* compare({ digest }) {
        return digest !== undefined && (yield* digest.ofChip(start, end - start)) === digest.ofBytes(unit.bytes);
      }, signal);
    }
    for (const block of blocksOf(unit.region, this.session.blockBytes)) {
      const wanted = unit.bytes.subarray(block.start - start, block.end - start);
      if (Buffer.compare(await this.#readBlock(block, signal), wanted) !== 0) return false;
    }
    return true;
  }

  /** Writes a run: in one piece if writing erases, else unit by unit. */
  async writeRun(run: Run, signal: AbortSignal): Promise<void> {
    for (const unit of this.session.erase === undefined ? [run] : run.units) await this.write(unit, signal);
  }

  /** Writes a unit. Unless writing erases, the unit is erased first, and blank blocks are left out. */
  async write(unit: Unit, signal: AbortSignal): Promise<void> {
    for (let tries = 0; tries < maxUnitTries; tries += 1) if (await this.#tryWrite(unit, signal)) return;
    throw new McuError('board-mismatch', `the memory at ${hex(unit.region.start)} does not keep what is written`);
  }

  /** One attempt to write a unit. False: it must begin again. */
  async #tryWrite({ region, bytes }: Unit, signal: AbortSignal): Promise<boolean> {
    await this.#run(function* erase(session) {
      if (session.erase !== undefined) yield* session.erase(region);
    }, signal);
    const begun = this.session;
    const blocks = blocksOf(region, begun.blockBytes);
    // backwards if the order is free, since an application starts at its beginning, which is then written last
    for (const { start, end } of begun.writes === 'in-order' ? blocks : blocks.toReversed()) {
      const block = bytes.subarray(start - region.start, end - region.start);
      if (begun.writes === 'erased' && isBlank(block)) continue;
      let tries = 0;
      const written = await this.#run((session) => {
        tries += 1;
        const alone = start === region.start && end === region.end;
        const orderLost = session !== begun || (tries > 1 && alone);
        // a reset restarts the order, and a single block that is written twice would erase the following ones
        if (begun.writes === 'in-order' && orderLost) return withoutIo(false);
        const readsFirst = begun.writes !== 'anywhere' && tries > 1;
        return readsFirst ? writeAgain(session, start, block) : writeOnce(session, start, block);
      }, signal);
      if (!written) return false;
    }
    return true;
  }

  async #readUntilTwoAgree(block: Region, first: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    let bytes = first;
    for (let tries = 0; tries < maxReadTries; tries += 1) {
      const again = await this.#readBlock(block, signal);
      if (Buffer.compare(bytes, again) === 0) return bytes;
      bytes = again;
    }
    throw new McuError('board-bad-response', `the memory at ${hex(block.start)} reads differently each time`);
  }

  async #readBlock(block: Region, signal: AbortSignal): Promise<Uint8Array> {
    return this.#run((session) => readOrRefuse(session, block.start, block.end - block.start), signal);
  }

  async #run<T>(turn: (session: MemorySession) => Conversation<T>, signal: AbortSignal): Promise<T> {
    return this.#connection.run((session) => turn(memorySession(session)), signal);
  }

  /** The number of bytes that the chip can compare in one step. */
  get compareBytes(): number {
    const { digest, runBytes } = this.session;
    return digest === undefined ? 0 : (runBytes ?? 0);
  }

  /** Returns the units that the chip does not hold. A damaged answer can make a comparison fail. */
  async differing(units: readonly Unit[], signal: AbortSignal, runBytes = this.compareBytes): Promise<readonly Unit[]> {
    const different: Unit[] = [];
    for (const run of joined(units, runBytes)) {
      if (await this.holds(run, signal)) continue;
      different.push(...(run.units.length === 1 ? run.units : await this.differing(run.units, signal, 0)));
    }
    return different;
  }
}

/** Joins regions that overlap or touch. */
function merged(regions: readonly Region[]): Region[] {
  const joint: Region[] = [];
  for (const region of regions.toSorted((a, b) => a.start - b.start)) {
    const last = joint.at(-1);
    if (last === undefined || region.start > last.end) joint.push(region);
    else joint.splice(-1, 1, { start: last.start, end: Math.max(last.end, region.end) });
  }
  return joint;
}

/** Joins neighbouring units that lie between two multiples of `runBytes`. With 0, each unit is a run. */
export function joined(units: readonly Unit[], runBytes: number): Run[] {
  const runs: Unit[][] = [];
  for (const unit of units) {
    const run = runs.at(-1);
    const last = run?.at(-1)?.region;
    const follows = runBytes > 0 && last?.end === unit.region.start && unit.region.start % runBytes !== 0;
    if (run !== undefined && follows) run.push(unit);
    else runs.push([unit]);
  }
  return runs.map(runOf);
}

function runOf(units: readonly Unit[]): Run {
  const [first] = units;
  const region = { start: first?.region.start ?? 0, end: units.at(-1)?.region.end ?? 0 };
  const bytes =
    units.length === 1 && first !== undefined ? first.bytes : Buffer.concat(units.map((unit) => unit.bytes));
  return { region, bytes, units };
}

function* readOrRefuse(session: MemorySession, address: number, length: number): Conversation<Uint8Array> {
  if (session.read === undefined) throw new McuError('board-unsupported', `${session.chip.name} cannot be read back`);
  return yield* session.read(address, length);
}

function* writeOnce(session: MemorySession, address: number, bytes: Uint8Array): Conversation<boolean> {
  yield* session.write(address, bytes);
  return true;
}

/** Writes a block again, after looking what the first try has done. False: the unit must be erased once more. */
function* writeAgain(session: MemorySession, address: number, bytes: Uint8Array): Conversation<boolean> {
  if (session.read === undefined) return false;
  const there = yield* session.read(address, bytes.byteLength);
  if (Buffer.compare(there, bytes) === 0) return true;
  return session.writes === 'in-order' || isBlank(there) ? yield* writeOnce(session, address, bytes) : false;
}

function memorySession(session: Session): MemorySession {
  if (session.kind === 'memory') return session;
  throw new McuError('board-changed', 'another kind of bootloader answers now');
}

function blocksOf({ start, end }: Region, blockBytes: number): Region[] {
  return Array.from({ length: Math.ceil((end - start) / blockBytes) }, (_, index) => ({
    start: start + index * blockBytes,
    end: Math.min(end, start + (index + 1) * blockBytes),
  }));
}

/**
 * Evenly spread units. If most of them are right, so is most of the image; if not, comparing the rest would waste time.
 */
export function sampleOf(units: readonly Unit[]): readonly Unit[] {
  const step = Math.max(1, Math.floor(units.length / sampleUnits));
  return units.filter((_, index) => index % step === step - 1);
}

/** True if the image has exactly these bytes for the unit. */
export function isIn(image: Image, { region, bytes }: Unit): boolean {
  return Buffer.compare(sliceOf(image, region.start, region.end), bytes) === 0;
}

/** The unit as it is after an erase. */
export function blankOf(unit: Unit): Unit {
  return { ...unit, bytes: new Uint8Array(unit.bytes.byteLength).fill(0xff) };
}
