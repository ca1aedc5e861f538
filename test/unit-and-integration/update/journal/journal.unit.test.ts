import { execFileSync } from 'node:child_process';
import { lstat, mkdir, mkdtemp, readdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { nodeFs } from '../../../../src/system/files/durable-file.ts';
import type { DurableFs } from '../../../../src/system/files/durable-file.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { FileJournal, readJournal } from '../../../../src/update/journal/journal.ts';
import type { Attempt } from '../../../../src/update/journal/state.ts';
import { ForgetfulFs, NO_FILE } from '../../../fakes/machine/memory/forgetful-fs.ts';
import { Power } from '../../../fakes/machine/power.ts';

const attempt: Attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' };
const begun = { type: 'staging-started', attempt, slot: 'B', at: '' } as const;
/** Create, write, fsync, rename. */
const STEPS_BEFORE_THE_DIRECTORY = 4;

/** A disk that keeps only fsynced data. */
function forgetfulDisk(): {
  readonly power: Power;
  readonly disk: ForgetfulFs;
  readonly open: () => Promise<FileJournal>;
} {
  const power = new Power();
  const disk = new ForgetfulFs(power, () => 0.4);
  return { power, disk, open: () => FileJournal.open('/state', silentLog, disk.api) };
}

// Regression in the sweep: the agent was killed between the rename and the fsync of the directory. The next one read
// the new journal and armed the slot, and a power loss restored the old journal: the slot was then committed without
// health checks.
test('the content of an opened journal stays, although its writer was killed before it was durable', async () => {
  const { power, disk, open } = forgetfulDisk();
  const journal = await open();
  power.cutAfter(STEPS_BEFORE_THE_DIRECTORY + 1);
  await expect(journal.append(begun)).rejects.toThrow('fsync directory');
  power.restore();
  const found = await open();
  disk.forget();
  expect((await open()).state).toEqual(found.state);
});

test('a damaged journal is damaged until something is appended, so that a cut does not make it an empty one', async () => {
  const { disk, open } = forgetfulDisk();
  disk.put('/state/journal.json', '{"format":1,"ph');
  expect((await open()).state.phase.kind).toBe('lost');
  disk.forget();
  const again = await open();
  expect(again.state.phase.kind).toBe('lost');
  await again.append({ type: 'recovered', at: '' });
  disk.forget();
  expect((await open()).state.phase.kind).toBe('idle');
  expect(disk.read('/state/journal.json.damaged')).toBe('{"format":1,"ph');
});

test('a damaged journal is opened on a full disk, too', async () => {
  const { disk, open } = forgetfulDisk();
  disk.put('/state/journal.json', '');
  disk.full = true;
  expect((await open()).state.phase.kind).toBe('lost');
});

// Regression in the sweep: a rollback that was reported as failed was made at the next start.
test('an event that could not be made durable has not happened, also after a restart', async () => {
  const { disk, open } = forgetfulDisk();
  const journal = await open();
  let changes = 0;
  disk.trouble = () => {
    changes += 1;
    return changes === STEPS_BEFORE_THE_DIRECTORY + 1 ? 'EIO' : undefined;
  };
  await expect(journal.append(begun)).rejects.toMatchObject({ code: 'state-unavailable' });
  expect(journal.state.phase.kind).toBe('idle');
  expect((await open()).state.phase.kind).toBe('idle');
});

/** Typed, as vitest's own is not. */
const saying = (text: string): unknown => expect.stringContaining(text);

/** Names as in the output of `ls`. */
async function namesIn(directory: string): Promise<readonly string[]> {
  return (await readdir(directory)).toSorted((a, b) => a.localeCompare(b));
}

/** Entries instead of the journal. */
const obstacles: Readonly<Record<string, (path: string) => Promise<void>>> = {
  'a folder': async (path) => void (await mkdir(join(path, 'within'), { recursive: true })),
  'a pipe': async (path) => void execFileSync('mkfifo', [path]),
  'a link': async (path) => symlink('/dev/zero', path),
  'a text without an end': async (path) => writeFile(path, '').then(async () => truncate(path, 300 * 2 ** 20)),
};

// Regression: no event could be made durable any longer.
test('a directory at the path of the temporary file costs no event', async () => {
  const { disk, open } = forgetfulDisk();
  disk.put('/state/journal.json.new', NO_FILE);
  await (await open()).append(begun);
  expect(disk.read('/state/journal.json.new.unusable')).toBe(NO_FILE);
  expect((await open()).state.phase.kind).toBe('staging');
});

test.each([0, 1, 2, 3, 4, 5, 6])(
  'nor is any data lost after a power loss %i steps later, least of all the directory',
  async (steps) => {
    const { power, disk, open } = forgetfulDisk();
    const journal = await open();
    await journal.append(begun);
    disk.put('/state/journal.json.new', NO_FILE);
    power.cutAfter(steps);
    await journal.append({ type: 'slot-opened', target: 'root' }).catch(() => undefined);
    power.restore();
    disk.forget();
    expect((await open()).state.phase.kind).toBe('staging');
    expect(Object.values(disk.files)).toContain(NO_FILE);
  },
);

describe('instead of the journal', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'journal-'));
    path = join(directory, 'journal.json');
  });
  afterEach(async () => {
    await rm(directory, { recursive: true });
  });

  // Regression: nothing was installed until an operator removed it; later, a support bundle moved it.
  test.each(Object.entries(obstacles))(
    '%s stays until the first write, and is set aside then: the current update is lost',
    async (_, plant) => {
      await plant(path);
      const { ino } = await lstat(path);
      const journal = await FileJournal.open(directory, silentLog);
      expect(journal.state.phase.kind).toBe('lost');
      expect(journal.trouble).toBeUndefined();
      expect(journal.missing).toMatchObject({ code: 'state-unavailable', advice: saying('aside') });
      expect(await namesIn(directory)).toEqual(['journal.json']);
      await journal.probe();
      expect([journal.missing, journal.trouble]).toEqual([undefined, undefined]);
      expect((await lstat(`${path}.unusable`)).ino).toBe(ino);
      expect((await FileJournal.open(directory, silentLog)).state.phase.kind).toBe('lost');
      await journal.append({ type: 'recovered', at: '' });
      expect((await FileJournal.open(directory, silentLog)).state.phase.kind).toBe('idle');
    },
  );

  test('a directory that was set aside at a power loss leaves a lost journal, not an idle one', async () => {
    await mkdir(path);
    const cut: DurableFs = {
      ...nodeFs,
      rename: async (from, to) => {
        if (to === path) throw Object.assign(new Error('EIO'), { code: 'EIO' });
        return nodeFs.rename(from, to);
      },
    };
    await (await FileJournal.open(directory, silentLog, cut)).refresh();
    expect(await namesIn(directory)).not.toContain('journal.json');
    const journal = await FileJournal.open(directory, silentLog);
    expect([journal.state.phase.kind, journal.missing]).toEqual(['lost', undefined]);
    expect((await readJournal(directory)).state.phase.kind).toBe('lost');
    await journal.append({ type: 'recovered', at: '' });
    expect((await FileJournal.open(directory, silentLog)).state.phase.kind).toBe('idle');
  });

  test('a folder is set aside by an event, and by who settles, too', async () => {
    await mkdir(path);
    const journal = await FileJournal.open(directory, silentLog);
    await journal.append({ type: 'recovered', at: '' });
    expect((await FileJournal.open(directory, silentLog)).state.phase.kind).toBe('idle');
    await rm(path);
    await mkdir(path);
    const again = await FileJournal.open(directory, silentLog);
    await again.refresh();
    expect([again.missing, again.state.phase.kind]).toEqual([undefined, 'lost']);
    expect(await namesIn(directory)).toContain('journal.json.unusable-2');
  });

  test('a directory that appears while an agent runs costs none of its knowledge', async () => {
    const journal = await FileJournal.open(directory, silentLog);
    await journal.append(begun);
    await rm(path);
    await mkdir(path);
    await journal.append({ type: 'check-deferred' });
    expect((await FileJournal.open(directory, silentLog)).state).toEqual(journal.state);
    expect(await namesIn(directory)).toContain('journal.json.unusable');
  });

  test('the sixth entry stays, which is reported, and the five before it are kept', async () => {
    for (let number = 1; number <= 5; number += 1) {
      await rm(path, { force: true });
      await mkdir(path);
      await (await FileJournal.open(directory, silentLog)).probe();
    }
    await rm(path);
    await mkdir(path);
    const before = await namesIn(directory);
    const journal = await FileJournal.open(directory, silentLog);
    await expect(journal.probe()).rejects.toThrow(/set aside .*journal\.json: .*5 such/);
    expect(journal.trouble).toMatchObject({ advice: saying('remove them') });
    expect((await namesIn(directory)).filter((name) => !name.endsWith('.new'))).toEqual(
      before.filter((name) => !name.endsWith('.new')),
    );
    await rm(path, { recursive: true });
    await journal.probe();
    expect(journal.trouble).toBeUndefined();
  });

  test.each(['EIO', 'ENOMEM', 'EMFILE', 'EACCES', 'ESTALE'])(
    'a file that fails to be read (%s) stays',
    async (code) => {
      await writeFile(path, '{}');
      const readFile = async (): Promise<Buffer> => Promise.reject(Object.assign(new Error(code), { code }));
      const fs: DurableFs = { ...nodeFs, readFile };
      const journal = await FileJournal.open(directory, silentLog, fs);
      await expect(journal.probe()).rejects.toThrow(code);
      await expect(journal.append({ type: 'recovered', at: '' })).rejects.toThrow(code);
      expect(await namesIn(directory)).toEqual(['journal.json']);
    },
  );

  test('a directory stays if nothing can be written, or the state directory cannot have a journal', async () => {
    await mkdir(path);
    const full: DurableFs = {
      ...nodeFs,
      open: async (name, flags, mode) => {
        if (flags !== 'r') throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
        return nodeFs.open(name, flags, mode);
      },
    };
    await expect((await FileJournal.open(directory, silentLog, full)).probe()).rejects.toMatchObject({
      code: 'disk-full',
    });
    const admit = async (): Promise<void> => Promise.reject(new Error('on a slot'));
    await expect((await FileJournal.open(directory, silentLog, nodeFs, { admit })).probe()).rejects.toThrow(
      'on a slot',
    );
    expect(await namesIn(directory)).toEqual(['journal.json']);
  });

  test('minimum versions survive; if their copy is unusable, too, that is reported', async () => {
    const floor = { securityVersion: 2, name: '1.5.0' };
    await mkdir(path);
    await writeFile(join(directory, 'floors.json'), JSON.stringify({ floor }));
    let lost = 0;
    const onFloorsLost = async (): Promise<void> => {
      lost += 1;
    };
    const journal = await FileJournal.open(directory, silentLog, nodeFs, { onFloorsLost });
    await journal.probe();
    expect([lost, journal.state.floor]).toEqual([0, expect.objectContaining(floor)]);
    await rm(path);
    await mkdir(path);
    await writeFile(join(directory, 'floors.json'), '{');
    await (await FileJournal.open(directory, silentLog, nodeFs, { onFloorsLost })).probe();
    expect(lost).toBe(1);
  });
});
