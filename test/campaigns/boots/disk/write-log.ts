import { readFileSync } from 'node:fs';

export const SECTOR = 512;

/** A write, or the flush of all that came before it, in the order in which the disk saw them. */
export interface DiskEvent {
  /** Bytes of all logs through the end of this event: its position among the other events. */
  readonly position: number;
  readonly kind: 'write' | 'flush';
  /** Durable when the write completes (FUA). */
  readonly isDurable: boolean;
  readonly sector: number;
  readonly sectors: number;
  readonly data: Buffer;
}

/** Linux, Documentation/admin-guide/device-mapper/log-writes.rst, and QEMU's block/blklogwrites.c. */
const MAGIC = 0x6a736677736872n;
const FLUSH = 1;
const FUA = 2;
const DISCARD = 4;

interface Entry {
  readonly sector: number;
  readonly sectors: number;
  readonly flags: number;
}

/** The events of one power cycle. A machine that was killed leaves a last event that is not whole. */
export function readWriteLog(path: string, startPosition: number): readonly DiskEvent[] {
  const log = readFileSync(path);
  if (log.byteLength < SECTOR) return [];
  if (log.readBigUInt64LE(0) !== MAGIC) throw new Error(`${path} is no log of writes`);
  const events: DiskEvent[] = [];
  for (let offset = SECTOR; offset + SECTOR <= log.byteLength;) {
    const entry = readEntry(log, offset);
    const start = offset + SECTOR;
    const end = start + (isWrite(entry) ? entry.sectors * SECTOR : 0);
    if (isNothing(entry) || end > log.byteLength) break;
    events.push(...eventsOf(entry, log.subarray(start, end), startPosition + end));
    offset = end;
  }
  return events;
}

function readEntry(log: Buffer, offset: number): Entry {
  const [sector = 0, sectors = 0, flags = 0] = [0, 8, 16].map((at) => Number(log.readBigUInt64LE(offset + at)));
  return { sector, sectors, flags };
}

function isWrite({ sectors, flags }: Entry): boolean {
  return sectors > 0 && (flags & DISCARD) === 0;
}

/** A place that a killed machine left empty. */
function isNothing({ sectors, flags }: Entry): boolean {
  return sectors === 0 && flags === 0;
}

function eventsOf(entry: Entry, data: Buffer, position: number): readonly DiskEvent[] {
  const { sector, flags } = entry;
  const common = { position, sector, isDurable: (flags & FUA) !== 0 };
  const events: DiskEvent[] = [];
  if ((flags & FLUSH) !== 0) events.push({ ...common, kind: 'flush', sectors: 0, data: Buffer.alloc(0) });
  if (isWrite(entry)) events.push({ ...common, kind: 'write', sectors: entry.sectors, data });
  return events;
}
