import { isDeepStrictEqual } from 'node:util';

import { describe, expect, test } from 'vitest';

import { howMuch } from '../../../../full.ts';
import { GuardMachine } from './guard-machine.ts';
import type { Deb } from './guard-machine.ts';

/** The script itself, with a dpkg that leaves a package half installed. Cuts of the power are the sweep's, in memory. */

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

/** Runs every nth step only. */
const every = howMuch(1, 7);
/**
 * Regression: this program, still running for the installer that was killed, held its lock. The next installer mistook it for
 * a second installer and succeeded, so none was started again, and the package whose agent does not start stayed.
 */
const pinned = 'sync';
const together = 4;

test('its unit is started again, however often it failed', async () => {
  await using machine = await GuardMachine.create(OLD, [OLD]);
  const unit = await machine.unit();
  expect(unit).toMatch(/^\[Unit\]\n[^[]*^StartLimitIntervalSec=0$/m);
  expect(unit).toMatch(/^Restart=on-failure$/m);
});

test.each([
  ['no configuration of root’s', ''],
  ['another target', '[targets.app]\nkind = "package"\npackage = "app2"'],
  ['a comment', '#kind = "package"\n # package = "app"'],
  ['slots', '[targets.app]\nkind = "slots"\npackage = "app"'],
])('%s names the package: it is not touched, whoever asks', async (_what, config) => {
  await using machine = await GuardMachine.create(OLD, [OLD]);
  expect(await machine.unit(config)).toBe('');
  expect(await machine.unit("targets = { any = { package='app', kind='package' } }")).toContain('watch');
});

// Regression in the sweep: after the journal was lost, a package was installed in which no agent started, and nothing ended it.
test.each(['idle', 'staging', 'lost'])('installs no package for an update that is over (%s)', async (phase) => {
  const want = { version: 'dead 1.3' };
  await using machine = await GuardMachine.create(OLD, [OLD, want], phase);
  await machine.exchange(want, OLD);
  expect(await machine.end()).toMatchObject({ status: 'installed', parts: ['1.0'], left: [] });
});

/** Sources: the messages in dpkg 1.21.22 (Debian 12), and the output of dpkg 1.22 (Debian 13). */
const lockTexts = [
  'dpkg frontend lock was locked by another process',
  'dpkg frontend lock was locked by another process with pid 919',
  'dpkg frontend lock was locked by /usr/bin/dpkg process with pid 919',
];

// Regression: with the words of Debian 13, the installation failed without a second try, and so did the restore.
test.each(lockTexts)('waits for another dpkg: %s', async (words) => {
  const want = { version: '1.1' };
  await using machine = await GuardMachine.create(OLD, [OLD, want]);
  await machine.lock(want, 3, words);
  await machine.exchange(want, OLD);
  expect(await machine.end()).toEqual({ ...rest, parts: ['1.1'], told: 'installed 1.1' });
});

// Regression: a package in which no agent starts stayed forever if another dpkg ran during its restore.
test('repeats a restore that failed, while no agent runs', async () => {
  const want = { version: 'dead 1.3' };
  await using machine = await GuardMachine.create(OLD, [OLD, want]);
  await machine.lock(OLD, 61, 'dpkg frontend lock was locked by /usr/bin/dpkg process with pid 919');
  await machine.exchange(want, OLD);
  expect(await machine.end()).toEqual({ ...rest, parts: ['1.0'], told: 'put-back 1.0' });
});

// Regression: the line that the script had printed was left out, and dpkg's general message was reported.
test('reports what a script of the package printed', async () => {
  const { want } = stories['a package that dpkg cannot configure'];
  await using machine = await GuardMachine.create(OLD, [OLD, want]);
  await machine.exchange(want, OLD);
  expect(await machine.why()).toBe(
    'dpkg ended with 1: cannot migrate the database; installed app package post-installation script subprocess returned error exit status 3',
  );
});

describe.each(Object.entries(stories))('%s', (_name, { want, ends }) => {
  async function play(killedAt?: number): Promise<{ readonly steps: readonly string[]; readonly end: object }> {
    await using machine = await GuardMachine.create(OLD, [OLD, want]);
    const steps = await machine.exchange(want, OLD, killedAt);
    return { steps, end: await machine.end() };
  }

  test('is exchanged or put back as a whole, wherever the guard is killed', async () => {
    const { steps, end } = await play();
    expect(end).toEqual(ends);
    expect(steps).toContain(pinned);
    const chosen = [...steps.entries()].filter(([index, step]) => index % every === 0 || step === pinned);
    const broken: object[] = [];
    const next = async (): Promise<void> => {
      for (let cut = chosen.pop(); cut !== undefined; cut = chosen.pop()) {
        const [index, step] = cut;
        const found = (await play(index + 1)).end;
        if (!isDeepStrictEqual(found, ends)) broken.push({ at: index + 1, step, found });
      }
    };
    await Promise.all(Array.from({ length: together }, next));
    expect(broken).toEqual([]);
  }, 600_000);
});
