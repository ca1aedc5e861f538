import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { readWriteLog, SECTOR } from './write-log.ts';

const MAGIC = 0x6a736677736872n;

function logFile(entries: readonly Buffer[]): string {
  const folder = folderUntilTestEnds();
  const superblock = Buffer.alloc(SECTOR);
  superblock.writeBigUInt64LE(MAGIC, 0);
  writeFileSync(join(folder, 'log'), Buffer.concat([superblock, ...entries]));
  return join(folder, 'log');
}

function entry(sector: number, sectors: number, flags: number, fill?: number): Buffer {
  const head = Buffer.alloc(SECTOR);
  head.writeBigUInt64LE(BigInt(sector), 0);
  head.writeBigUInt64LE(BigInt(sectors), 8);
  head.writeBigUInt64LE(BigInt(flags), 16);
  return fill === undefined ? head : Buffer.concat([head, Buffer.alloc(sectors * SECTOR, fill)]);
}

test('a log lists writes, durable writes and flushes in their order, with their positions', () => {
  const events = readWriteLog(logFile([entry(8, 2, 0, 7), entry(0, 0, 1), entry(16, 1, 2, 9)]), 1000);
  expect(
    events.map(({ kind, sector, sectors, isDurable, position }) => [kind, sector, sectors, isDurable, position]),
  ).toEqual([
    ['write', 8, 2, false, 1000 + 4 * SECTOR],
    ['flush', 0, 0, false, 1000 + 5 * SECTOR],
    ['write', 16, 1, true, 1000 + 7 * SECTOR],
  ]);
  expect(events[0]?.data.equals(Buffer.alloc(2 * SECTOR, 7))).toBe(true);
});

test('a discard is not a write', () => {
  expect(readWriteLog(logFile([entry(8, 2, 4), entry(9, 1, 0, 1)]), 0).map(({ sector }) => sector)).toEqual([9]);
});

test('the end of a machine that was killed in the middle of a write is left out', () => {
  const whole = entry(1, 1, 0, 1);
  const torn = entry(2, 4, 0, 2).subarray(0, 3 * SECTOR);
  expect(readWriteLog(logFile([whole, torn]), 0).map(({ sector }) => sector)).toEqual([1]);
  expect(readWriteLog(logFile([whole, Buffer.alloc(SECTOR)]), 0).map(({ sector }) => sector)).toEqual([1]);
});

test('rejects a file that is not a log', () => {
  const path = logFile([]);
  writeFileSync(path, Buffer.alloc(SECTOR));
  expect(() => readWriteLog(path, 0)).toThrow('is no log of writes');
});
