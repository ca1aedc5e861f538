import { isDeepStrictEqual } from 'node:util';

import { describe, expect, test } from 'vitest';

import { howMuch } from '../../../../full.ts';
import { GuardMachine } from './guard-machine.ts';
import type { Cut, Deb } from './guard-machine.ts';

/** The script itself, with a dpkg that leaves a package half installed. Cuts of the power are the sweep's. */

const OLD: Deb = { version: '1.0' };
const rest = { status: 'installed', agent: 'running', left: [] };

const stories = {
  'a package that is well': { want: { version: '1.1' }, ends: { ...rest, parts: ['1.1'], told: 'installed 1.1' } },
  'a package that dpkg cannot configure': {
    want: { version: '1.2', scriptFails: true },
    ends: { ...rest, parts: ['1.0'], told: 'refused 1.0' },
  },
  'a package in which no agent comes up': {
    want: { version: 'dead 1.3' },
    ends: { ...rest, parts: ['1.0'], told: 'put-back 1.0' },
  },
} as const;

/** Of the steps, every so many-th. */
const every = howMuch(1, 7);
const together = 4;

describe.each(Object.entries(stories))('%s', (_name, { want, ends }) => {
  async function play(cut?: Cut): Promise<{ readonly steps: number; readonly end: object }> {
    await using machine = await GuardMachine.create(OLD, [OLD, want]);
    const steps = await machine.exchange(want, OLD, cut);
    return { steps, end: await machine.end() };
  }

  test('is exchanged or put back as a whole, wherever the guard is killed', async () => {
    const { steps, end } = await play();
    expect(end).toEqual(ends);
    const cuts: Cut[] = [];
    for (let at = 1; at <= steps; at += 1) {
      cuts.push({ at, how: 'kill', seed: 0 });
    }
    const chosen = cuts.filter((_, index) => index % every === 0);
    const broken: object[] = [];
    const next = async (): Promise<void> => {
      for (let cut = chosen.pop(); cut !== undefined; cut = chosen.pop()) {
        const found = (await play(cut)).end;
        if (!isDeepStrictEqual(found, ends)) broken.push({ cut, found });
      }
    };
    await Promise.all(Array.from({ length: together }, next));
    expect(broken).toEqual([]);
  }, 600_000);
});
