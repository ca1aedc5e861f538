import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createFsFromVolume, Volume } from 'memfs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { DurableFs } from '../../../src/system/durable-file.ts';
import { silentLog } from '../../../src/system/log.ts';
import { FileJournal, MemoryJournal } from '../../../src/update/journal.ts';
import type { Journal } from '../../../src/update/journal.ts';
import type { Attempt } from '../../../src/update/state.ts';

const attempt: Attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' };

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'journal-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
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

  test('holds what was appended when it is opened again', async () => {
    const open = prepare();
    await (await open()).append({ type: 'staging-started', attempt, slot: 'B' });
    const reopened = await open();
    expect(reopened.state.phase).toMatchObject({ kind: 'staging', slot: 'B', attempt: { id: 'a1' } });
  });

  test('refuses an event that the phase does not allow, and changes nothing', async () => {
    const journal = await prepare()();
    await expect(journal.append({ type: 'committed', at: '', slot: 'B' })).rejects.toThrow(/phase idle/);
    expect(journal.state.phase).toEqual({ kind: 'idle' });
  });
});

test.each(['', '{', '{"format":1}', 'null', '{"format":2,"phase":{"kind":"idle"},"quarantine":[],"reports":[]}'])(
  'a damaged journal (%j) is set aside, and what runs is kept only if it is healthy',
  async (text) => {
    await writeFile(join(directory, 'journal.json'), text);
    const journal = await FileJournal.open(directory, silentLog);
    expect(journal.state.phase).toEqual({ kind: 'lost' });
    expect(await readFile(join(directory, 'journal.json.damaged'), 'utf8')).toBe(text);
    await journal.append({ type: 'recovered' });
    expect(await readdir(directory)).toContain('journal.json');
  },
);
