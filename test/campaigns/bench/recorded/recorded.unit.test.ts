import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import type { Figure } from '../figures.ts';
import { spreadOf } from '../statistics.ts';
import { worseThanRecorded } from './recorded.ts';

interface Entry {
  readonly suite: string;
  readonly name: string;
  readonly unit: Figure['unit'];
  readonly now?: number;
}

test.each([
  { times: 1.04, isWorse: false },
  { times: 1.06, isWorse: true },
  { times: 0.5, isWorse: false },
])('finds a figure of $times times the recorded one worse: $isWorse', async ({ times, isWorse }) => {
  const text = await readFile(join(import.meta.dirname, 'recorded.json'), 'utf8');
  const recorded = (JSON.parse(text) as readonly Entry[]).find(({ now }) => now !== undefined);
  if (recorded?.now === undefined) throw new Error('nothing is recorded');
  const { suite, name, unit, now } = recorded;
  const figures = [name, 'a new figure'].map((each) => ({ name: each, unit, value: spreadOf([now * times]), how: '' }));
  const worse = await worseThanRecorded([{ suite, measurements: [], figures }]);
  expect(worse.map((line) => line.includes(name))).toEqual(isWorse ? [true] : []);
});
