import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { execSource, execStreamSource } from '../../../../src/telemetry/sources/exec.ts';
import { fileSource } from '../../../../src/telemetry/sources/file.ts';
import { serialSource } from '../../../../src/telemetry/sources/serial.ts';
import type { PushedSource, Reading } from '../../../../src/telemetry/sources/source.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const signal = AbortSignal.timeout(60_000);
const port = { port: '/dev/ttyX', baud: 9_600, parity: 'none', pattern: undefined, idleTimeoutMs: 3_000 } as const;

/** Runs a source until it ends. Returns its readings and errors. */
async function readingsOf(source: PushedSource): Promise<readonly unknown[]> {
  const found: unknown[] = [];
  const take = (read: () => Reading): void => {
    try {
      found.push(read());
    } catch (error) {
      found.push(String(error));
    }
  };
  await source.run({ connected: () => {}, take, drop: () => {}, rest: () => undefined }, signal).catch(() => {});
  return found;
}

const refused: unknown = expect.stringContaining('the unit was mV before');

test.each([
  ['a file', (path: string) => fileSource(path)],
  ['a program', (path: string) => execSource({ command: ['/bin/cat', path] }, 30_000)],
])('refuses another unit from %s', async (_name, make) => {
  const path = join(folderUntilTestEnds(), 'reading');
  const source = make(path);
  writeFileSync(path, '950 mV\n');
  expect(await source.read(signal)).toBe(950);
  writeFileSync(path, '1.02 V\n');
  await expect(source.read(signal)).rejects.toThrow('the unit was mV before: "1.02 V"');
});

test('refuses another unit from a program with stream', async () => {
  const source = execStreamSource({ command: ['/bin/echo', '950 mV\n1.02 V'] });
  expect(await readingsOf(source)).toEqual([950, refused]);
  expect(await readingsOf(source)).toEqual([950, refused]);
});

test('refuses another unit from a serial line, also after it was opened again', async () => {
  const texts = ['', '950 mV\n1.02 V\n'].values();
  const again = ['', '1.02 V\n'].values();
  const lines = [texts, again].values();
  const source = serialSource(port, async () => {
    const { value } = lines.next();
    const read = async (): Promise<Buffer> => {
      const next = value?.next();
      if (next?.value === undefined) throw new Error('unplugged');
      return Buffer.from(next.value);
    };
    return { read, write: async () => {}, [Symbol.asyncDispose]: async () => {} };
  });
  expect(await readingsOf(source)).toEqual([950, refused]);
  expect(await readingsOf(source)).toEqual([refused]);
});
