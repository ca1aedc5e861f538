import { expect, test } from 'vitest';

import { silentLog } from '../../../../src/system/log/log.ts';
import { FileJournal } from '../../../../src/update/journal/journal.ts';
import type { Attempt } from '../../../../src/update/journal/state.ts';
import { ForgetfulFs } from '../../../stand-ins/machine/memory/forgetful-fs.ts';
import { Power } from '../../../stand-ins/machine/power.ts';

const attempt: Attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' };
const begun = { type: 'staging-started', attempt, slot: 'B', at: '' } as const;
/** Create, write, fsync, rename. */
const STEPS_BEFORE_THE_DIRECTORY = 4;

/** A disk that keeps what was fsynced and nothing else. */
function forgetfulDisk(): {
  readonly power: Power;
  readonly disk: ForgetfulFs;
  readonly open: () => Promise<FileJournal>;
} {
  const power = new Power();
  const disk = new ForgetfulFs(power, () => 0.4);
  return { power, disk, open: () => FileJournal.open('/state', silentLog, disk.api) };
}

// Seen in the sweep: the agent was killed between the rename and the fsync of the directory. The next one read the new
// journal, armed the slot by it, and a power cut brought the old journal back: the slot was then kept without a verdict.
test('what a journal says when it is opened stays, also if its writer was killed before it was durable', async () => {
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

// Seen in the sweep: a rollback that a person was told had failed was made at the next start.
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
