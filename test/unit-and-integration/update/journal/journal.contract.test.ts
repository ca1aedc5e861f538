import * as realFs from 'node:fs/promises';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { createFsFromVolume, Volume } from 'memfs';
import { beforeEach, describe, expect, test } from 'vitest';

import type { DurableFs } from '../../../../src/system/files/durable-file.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { FileJournal, MemoryJournal } from '../../../../src/update/journal/journal.ts';
import type { Journal } from '../../../../src/update/journal/journal.ts';
import type { Attempt } from '../../../../src/update/journal/state.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { RecordingLog } from '../../service/recording-log.ts';

const attempt: Attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' };

let directory: string;
beforeEach(() => {
  directory = folderUntilTestEnds();
});

function memoryFs(): DurableFs {
  const volume = new Volume();
  volume.mkdirSync('/state');
  return createFsFromVolume(volume).promises as unknown as DurableFs;
}

const adapters: [string, () => () => Promise<Journal>][] = [
  ['on disk', () => () => FileJournal.open(directory, silentLog)],
  [
    'on memfs',
    () => {
      const fs = memoryFs();
      return () => FileJournal.open('/state', silentLog, fs);
    },
  ],
  [
    'in memory',
    () => {
      const journal = new MemoryJournal();
      return async () => journal;
    },
  ],
];

describe.each(adapters)('a journal %s', (_name, prepare) => {
  test('starts idle', async () => {
    const journal = await prepare()();
    expect(journal.state.phase).toEqual({ kind: 'idle' });
  });

  test('has all appended events when it is opened again', async () => {
    const open = prepare();
    await (await open()).append({ type: 'staging-started', attempt, slot: 'B', at: '' });
    const reopened = await open();
    expect(reopened.state.phase).toMatchObject({ kind: 'staging', slot: 'B', attempt: { id: 'a1' } });
  });

  test('refuses an event that the phase does not allow, and changes nothing', async () => {
    const journal = await prepare()();
    await expect(journal.append({ type: 'committed', at: '', slot: 'B' })).rejects.toThrow(/phase idle/);
    expect(journal.state.phase).toEqual({ kind: 'idle' });
  });
});

test.each(['', '{', 'null', '[]', '7', '{"format":1}', '['.repeat(20_000)])(
  'a damaged journal (%j) is set aside, and nothing is known of an update',
  async (text) => {
    await writeFile(join(directory, 'journal.json'), text);
    const log = new RecordingLog();
    const journal = await FileJournal.open(directory, log);
    expect(log.lines.map(({ fields }) => fields)).toMatchObject([
      { path: join(directory, 'journal.json'), sizeBytes: text.length, copy: join(directory, 'journal.json.damaged') },
    ]);
    expect(JSON.stringify(log.lines)).not.toMatch(/Unexpected|JSON at/);
    expect(journal.state.phase).toEqual({ kind: 'lost' });
    expect(journal.missing).toBeUndefined();
    expect(await readFile(join(directory, 'journal.json.damaged'), 'utf8')).toBe(text);
    await journal.append({ type: 'recovered', at: '' });
    expect(await readdir(directory)).toContain('journal.json');
  },
);

describe('a journal', () => {
  test('that is not there is missing until something is appended', async () => {
    const journal = await FileJournal.open(directory, silentLog);
    expect(journal.missing).toMatchObject({
      code: 'state-unavailable',
      message: expect.stringMatching(/there is none$/) as unknown,
    });
    await journal.append({ type: 'staging-started', attempt, slot: 'B', at: '' });
    expect(journal.missing).toBeUndefined();
  });

  test('that cannot be read takes no event, and is read again when it can be', async () => {
    await (
      await FileJournal.open(directory, silentLog)
    ).append({ type: 'staging-started', attempt, slot: 'B', at: '' });
    let isBroken = true;
    const fs: DurableFs = {
      ...realFs,
      readFile: (async (...given: Parameters<typeof realFs.readFile>) => {
        if (isBroken) throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
        return realFs.readFile(...given);
      }) as typeof realFs.readFile,
    };
    const journal = await FileJournal.open(directory, silentLog, fs);
    expect(journal.state.phase.kind).toBe('lost');
    const refused = { code: 'state-unavailable', message: expect.stringContaining('EIO') as unknown };
    expect(journal.missing).toMatchObject(refused);
    await expect(journal.append({ type: 'recovered', at: '' })).rejects.toMatchObject(refused);
    await expect(journal.probe()).rejects.toMatchObject(refused);
    isBroken = false;
    await journal.probe();
    expect(journal.missing).toBeUndefined();
    expect(journal.state.phase.kind).toBe('staging');
  });

  test('is probed for more than it holds now, so that nothing is begun that could not be kept', async () => {
    const fs: DurableFs = {
      ...realFs,
      open: async (...given) => {
        const file = await realFs.open(...given);
        const writeFile = file.writeFile.bind(file);
        file.writeFile = async (text, ...rest) => {
          if (typeof text === 'string' && text.length > 10_000)
            throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
          return writeFile(text, ...rest);
        };
        return file;
      },
    };
    const journal = await FileJournal.open(directory, silentLog, fs);
    await journal.probe();
    await expect(journal.probe(20_000)).rejects.toMatchObject({ code: 'disk-full' });
    await journal.append({ type: 'staging-started', attempt, slot: 'B', at: '' });
    expect((await FileJournal.open(directory, silentLog)).state.phase.kind).toBe('staging');
  });

  test('is probed without a change to it, and tells where it has no place', async () => {
    const journal = await FileJournal.open(directory, silentLog);
    await journal.probe();
    expect((await FileJournal.open(directory, silentLog)).missing).toBeDefined();
    await rm(directory, { recursive: true });
    await expect(journal.probe()).rejects.toMatchObject({ code: 'state-unavailable' });
    await mkdir(directory);
    const admit = async () => Promise.reject(new Error('on a slot'));
    const misplaced = await FileJournal.open(directory, silentLog, realFs, { admit });
    await expect(misplaced.probe()).rejects.toThrow('on a slot');
  });
});
