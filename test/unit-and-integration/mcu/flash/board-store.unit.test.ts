import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';

import { BoardStore, makeFolder } from '../../../../src/mcu/flash/board-store.ts';
import type { BoardFs, FlashedImage, KeptImage } from '../../../../src/mcu/flash/board-store.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { ForgetfulFs } from '../../../fakes/machine/memory/forgetful-fs.ts';
import { Power } from '../../../fakes/machine/power.ts';

const folder = '/state/boards/meter';
const keptPath = `${folder}/previous.json`;
const flashedPath = `${folder}/flashed.json`;

function imageOf(seed: number): Image {
  const pieces = [0, 0x400].map((address) => ({ address, bytes: Buffer.alloc(40, seed + address / 0x400) }));
  return makeImage('raw', pieces);
}

const kept = (seed: number): KeptImage => ({ payload: `sha256:${seed}`, read: true, image: imageOf(seed) });
const flashed = (seed: number): FlashedImage => ({
  chip: 'ATmega328P',
  imageDigest: imageOf(seed).digest,
  name: `sha256:${seed}`,
  at: '2026-01-01T00:00:00.000Z',
  attempts: 1,
  roundTripMs: undefined,
  image: imageOf(seed),
});

let power: Power;
let disk: ForgetfulFs;
let store: BoardStore;

function newDisk(random: () => number = () => 0): void {
  power = new Power();
  disk = new ForgetfulFs(power, random);
  store = new BoardStore(folder, fsOf(disk));
}

function fsOf(fs: ForgetfulFs): BoardFs {
  return { ...fs.api, mkdir: async () => undefined };
}

beforeEach(() => newDisk());

describe('the folder of a board', () => {
  test('returns its content', async () => {
    await store.keep(kept(1));
    await store.remember(flashed(2));
    expect(await store.kept()).toEqual(kept(1));
    expect(await store.flashed()).toEqual(flashed(2));
  });

  test('distinguishes no backup from an unknown backup', async () => {
    expect(await store.kept()).toBeUndefined();
    expect(await store.flashed()).toBeUndefined();
    await store.keep({ payload: 'sha256:1', read: false, image: undefined });
    expect(await store.kept()).toEqual({ payload: 'sha256:1', read: false, image: undefined });
  });

  test('never gives back a damaged image, wherever the damage is', async () => {
    await store.keep(kept(1));
    await store.remember(flashed(1));
    const [keptText = '', flashedText = ''] = [disk.read(keptPath), disk.read(flashedPath)];
    await fc.assert(
      fc.asyncProperty(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.nat(127), async (at, code) => {
        disk.put(keptPath, damaged(keptText, at, code));
        disk.put(flashedPath, damaged(flashedText, at, code));
        const found = await store.kept().catch((error: unknown) => error);
        const outcome = found instanceof AgentError ? found.code : (found as KeptImage).image?.digest;
        expect(['backup-damaged', imageOf(1).digest]).toContain(outcome);
        const last = await store.flashed();
        expect(last === undefined || last.image.digest === imageOf(1).digest).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test('does not take an image whose name was damaged for none', async () => {
    await store.keep(kept(1));
    disk.put(keptPath, disk.read(keptPath)?.replace('"image"', '"imag "') ?? '');
    await expect(store.kept()).rejects.toMatchObject({ code: 'backup-damaged' });
  });

  test.each(['', '{', '[]', 'null', '{"payload":7}', '{"payload":"a","read":true,"image":{"format":"raw"}}'])(
    'reports damage of `%s`, and continues without it if it is only a hint',
    async (text) => {
      disk.put(keptPath, text);
      disk.put(flashedPath, text);
      await expect(store.kept()).rejects.toMatchObject({ code: 'backup-damaged' });
      expect(await store.flashed()).toBeUndefined();
    },
  );

  test('reports a full disk', async () => {
    disk.full = true;
    await expect(store.keep(kept(1))).rejects.toMatchObject({ code: 'disk-full', exit: 'disk' });
  });

  test('has the old record or the new one after power loss anywhere, and the new one once it was acknowledged', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(8),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 8 }),
        async (cut, chances) => {
          let next = 0;
          newDisk(() => chances[next++ % chances.length] ?? 0);
          await store.keep(kept(1));
          disk.sync();
          power.cutAfter(cut);
          const done = await store.keep(kept(2)).then(
            () => true,
            () => false,
          );
          power.restore();
          disk.forget();
          const found = (await store.kept())?.payload;
          expect(done ? ['sha256:2'] : ['sha256:1', 'sha256:2']).toContain(found);
        },
      ),
    );
  });
});

test('a new folder is durable with all the folders above it that were missing', async () => {
  const synced: string[] = [];
  const fs = {
    ...fsOf(disk),
    mkdir: (async () => '/state/boards') as unknown as BoardFs['mkdir'],
    open: (async (path: string) => ({
      sync: async () => void synced.push(path),
      [Symbol.asyncDispose]: async () => {},
    })) as unknown as BoardFs['open'],
  };
  await makeFolder(folder, fs);
  expect(synced).toEqual(['/state/boards', '/state']);
});

function damaged(text: string, place: number, code: number): string {
  const at = Math.floor(place * text.length);
  return text.slice(0, at) + String.fromCharCode(code) + text.slice(at + 1);
}
