import { createFsFromVolume, Volume } from 'memfs';
import { beforeEach, expect, test } from 'vitest';

import type { DurableFs } from '../../../../src/system/files/durable-file.ts';
import { FloorsCopy } from '../../../../src/update/journal/floors-copy.ts';
import { FileJournal, lookAtJournal } from '../../../../src/update/journal/journal.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { UpdateState } from '../../../../src/update/journal/state.ts';
import { RecordingLog } from '../../service/recording-log.ts';

const floors = {
  floor: { securityVersion: 2, name: '1.5.0' },
  boardFloors: { meter: 7 },
  boardVersions: { meter: '1.2.3' },
};

let volume: Volume;
let fs: DurableFs;
let log: RecordingLog;

/** A gateway that had committed these. */
beforeEach(async () => {
  volume = new Volume();
  volume.mkdirSync('/state');
  fs = createFsFromVolume(volume).promises as unknown as DurableFs;
  log = new RecordingLog();
  await keep({ ...initialState, ...floors });
});

async function keep(state: UpdateState): Promise<void> {
  const copy = new FloorsCopy('/state', fs, log);
  await copy.addTo(initialState);
  await copy.keep(state);
}

/** How often it was said that the floors are lost. */
let lost = 0;

async function open(): Promise<FileJournal> {
  lost = 0;
  return FileJournal.open('/state', log, fs, {
    onFloorsLost: async () => {
      lost += 1;
    },
  });
}

// Seen: a journal of five bytes, and a release below the floor was staged without a word.
test.each([
  ['is lost', undefined],
  ['is empty', ''],
  ['is garbage', '{"x'],
  ['is of another kind', '[]'],
])('the floors stand where the journal %s', async (_, text) => {
  if (text !== undefined) volume.writeFileSync('/state/journal.json', text);
  expect((await open()).state).toMatchObject(floors);
  expect((await lookAtJournal('/state', fs)).state).toMatchObject(floors);
});

test('they are those of the journal where the copy is lost, or cannot be understood, and are copied again', async () => {
  const journal = await open();
  await journal.append({ type: 'look-skipped' });
  for (const text of ['', '{"floor":7}', '{']) {
    volume.writeFileSync('/state/floors.json', text);
    const again = await open();
    expect(again.state).toMatchObject(floors);
    await again.append({ type: 'look-skipped' });
    expect(JSON.parse(String(volume.readFileSync('/state/floors.json')))).toEqual(floors);
  }
});

test('the higher one counts, of each', async () => {
  volume.writeFileSync(
    '/state/floors.json',
    JSON.stringify({ floor: { securityVersion: 9, name: '1.0.0' }, boardFloors: { pump: 3 } }),
  );
  const copy = new FloorsCopy('/state', fs, log);
  expect(await copy.addTo({ ...initialState, ...floors })).toMatchObject({
    floor: { securityVersion: 9, name: '1.5.0' },
    boardFloors: { meter: 7, pump: 3 },
    boardVersions: { meter: '1.2.3' },
  });
});

test('nothing is written where nothing changed, and nothing ends where the copy cannot be written', async () => {
  const { mtimeMs } = volume.statSync('/state/floors.json');
  const journal = await open();
  await journal.append({ type: 'look-skipped' });
  expect(volume.statSync('/state/floors.json').mtimeMs).toBe(mtimeMs);
  volume.unlinkSync('/state/floors.json');
  volume.mkdirSync('/state/floors.json');
  const again = await open();
  await again.append({ type: 'look-skipped' });
  expect(again.state).toMatchObject(floors);
  expect(log.lines.at(-1)?.message).toContain('the copy of the floors');
});

test('a copy that cannot be understood is said, and made anew at once; without the journal the floors are lost, which is said, too', async () => {
  const journal = await open();
  await journal.append({ type: 'look-skipped' });
  volume.writeFileSync('/state/floors.json', '{');
  await open();
  expect(lost).toBe(0);
  expect(JSON.parse(String(volume.readFileSync('/state/floors.json')))).toEqual(floors);
  expect(log.lines.at(-1)).toMatchObject({ level: 'error', fields: { path: '/state/floors.json' } });
  for (const name of ['journal.json', 'floors.json']) volume.writeFileSync(`/state/${name}`, '{');
  await open();
  expect(lost).toBe(1);
  for (const name of ['journal.json', 'floors.json']) volume.unlinkSync(`/state/${name}`);
  await open();
  expect(lost).toBe(0); // a new gateway
});
