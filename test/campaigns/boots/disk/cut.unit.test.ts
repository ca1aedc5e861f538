import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { drawCut, Flushes, pieces, survivors } from './cut.ts';
import type { Cut } from './cut.ts';
import { spread } from './recording.ts';
import type { Recording } from './recording.ts';
import { SECTOR } from './write-log.ts';
import type { DiskEvent } from './write-log.ts';

const event = fc.record({
  kind: fc.constantFrom('write' as const, 'write' as const, 'write' as const, 'flush' as const),
  isDurable: fc.boolean(),
  sector: fc.nat(1000),
  sectors: fc.integer({ min: 1, max: 16 }),
});

const recording = fc.array(event, { minLength: 1, maxLength: 60 }).map((drawn): Recording => {
  let position = 0;
  const events = drawn.map(({ kind, isDurable, sector, sectors }): DiskEvent => {
    const count = kind === 'flush' ? 0 : sectors;
    position += (count + 1) * SECTOR;
    return { position, kind, isDurable, sector, sectors: count, data: Buffer.alloc(count * SECTOR, 1) };
  });
  return {
    scene: 'drawn',
    bootType: 'ext4',
    cycles: 1,
    seconds: 0,
    happenings: [],
    images: {},
    firmware: {},
    kernels: {},
    boards: {},
    boardWrites: [],
    partitions: [{ name: 'boot', sector: 100, sectors: 100 }],
    folder: '',
    base: '',
    events,
  };
});

function left(drawn: Recording, cut: Cut) {
  return survivors(drawn, new Flushes(drawn.events), cut);
}

describe('a power cut', () => {
  test('loses nothing that was flushed, or written as durable, before it', () => {
    fc.assert(
      fc.property(recording, fc.nat(), (drawn, seed) => {
        const cut = drawCut(drawn, seed);
        const before = drawn.events.slice(0, cut.event);
        const flushed = before.findLastIndex(({ kind }) => kind === 'flush');
        const firm = before.flatMap(({ kind, isDurable }, index) =>
          kind === 'write' && isDurable && index > flushed ? [index] : [],
        );
        const found = left(drawn, cut);
        expect(new Flushes(drawn.events).durableBefore(cut.event)).toBe(Math.max(flushed, 0));
        expect(found.filter(({ arrived }) => arrived === undefined).map(({ index }) => index)).toEqual(
          expect.arrayContaining(firm),
        );
      }),
    );
  });

  test('invents nothing: what is left was written, in order, at most once, and not after the cut', () => {
    fc.assert(
      fc.property(recording, fc.nat(), (drawn, seed) => {
        const cut = drawCut(drawn, seed);
        const indices = left(drawn, cut).map(({ index }) => index);
        expect(indices).toEqual([...new Set(indices)].toSorted((one, other) => one - other));
        expect(indices.every((index) => index <= cut.event && drawn.events[index]?.kind === 'write')).toBe(true);
      }),
    );
  });

  test('tears one write at most, at the border of a sector', () => {
    fc.assert(
      fc.property(recording, fc.nat(), (drawn, seed) => {
        const torn = left(drawn, drawCut(drawn, seed)).filter(({ arrived }) => arrived !== undefined);
        expect(torn.length).toBeLessThanOrEqual(1);
        for (const survivor of torn) {
          for (const { sector, data } of pieces(survivor)) {
            const at = (sector - survivor.event.sector) * SECTOR;
            expect(data.equals(survivor.event.data.subarray(at, at + data.byteLength))).toBe(true);
            expect(data.byteLength % SECTOR).toBe(0);
          }
        }
      }),
    );
  });

  test('is the same for the same seed, and falls between two events', () => {
    fc.assert(
      fc.property(recording, fc.nat(), (drawn, seed) => {
        const cut = drawCut(drawn, seed);
        expect(drawCut(drawn, seed)).toEqual(cut);
        expect(left(drawn, drawCut(drawn, seed))).toEqual(left(drawn, cut));
        expect(cut.position).toBeGreaterThanOrEqual(drawn.events[cut.event - 1]?.position ?? 0);
        expect(cut.position).toBeLessThanOrEqual((drawn.events[cut.event]?.position ?? Infinity) + 1);
      }),
    );
  });
});

describe('the pages of a board', () => {
  const page = (at: number, address: number) => ({ at, address, bytes: Buffer.alloc(1) });

  test('that change between two events of the disk are spread over the place between these, in order', () => {
    fc.assert(
      fc.property(recording, fc.nat(), fc.integer({ min: 1, max: 20 }), ({ events }, pick, count) => {
        const place = pick % events.length;
        const from = events[place]?.position ?? 0;
        const to = events[place + 1]?.position ?? from;
        const found = spread(
          Array.from({ length: count }, (_, address) => page(from, address)),
          events,
        );
        expect(found.map(({ address }) => address)).toEqual([...found.keys()]);
        const places = [from, ...found.map(({ at }) => at), to];
        expect(places).toEqual(places.toSorted((one, other) => one - other));
        expect(new Set(places).size).toBe(from === to ? 1 : count + 2);
      }),
    );
  });

  test('draw cuts among them', () => {
    const [drawn] = fc.sample(recording, { numRuns: 1, seed: 1 });
    if (drawn === undefined) throw new Error('nothing was drawn');
    const boardWrites = spread(
      Array.from({ length: 100 }, (_, address) => page(0, address)),
      drawn.events,
    );
    const seen = Array.from({ length: 200 }, (_, seed) => {
      const { position } = drawCut({ ...drawn, boardWrites }, seed);
      return boardWrites.filter(({ at }) => at <= position).length;
    });
    expect(seen.filter((count) => count > 0 && count < 100).length).toBeGreaterThan(20);
  });
});
