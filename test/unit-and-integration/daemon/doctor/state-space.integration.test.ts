import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, describe, expect, test } from 'vitest';

import { describeFreeSpace } from '../../../../src/daemon/doctor/doctor.ts';
import type { StateUse } from '../../../../src/daemon/doctor/doctor.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { TemporaryMount } from '../../slots/loop-device.ts';

const MIB = 1024 * 1024;

let place: TemporaryMount;

beforeEach(async () => {
  place = untilTestEnds(await TemporaryMount.mount('-t', 'tmpfs', '-o', 'size=4m', 'tmpfs'));
});

/** Returns doctor's output for 4 MiB with this much in use. */
async function roomBeside(takenBytes: number, change: Partial<StateUse> = {}): Promise<string> {
  await writeFile(join(place.folder, 'ballast'), Buffer.alloc(takenBytes));
  const telemetry = { minFreeBytes: MIB, maxBytes: MIB };
  return describeFreeSpace({ paths: { state: place.folder }, targets: [{}], measurements: [], telemetry, ...change });
}

// Regression: doctor accepted a state partition that was too full for staging.
describe('the room of the state directory, for doctor', () => {
  const measuring = { measurements: [{}] };

  test('is reported if there is enough', async () => {
    expect(await roomBeside(3.5 * MIB)).toMatch(/^\d+\.\d KiB are free$/);
    expect(await roomBeside(0, measuring)).toBe('4.0 MiB are free');
    expect(await roomBeside(4 * MIB, { targets: [] })).toBe('0 B are free');
  });

  test('is too little for an update', async () => {
    await expect(roomBeside(3.9 * MIB)).rejects.toMatchObject({
      code: 'state-nearly-full',
      message: expect.stringMatching(/^\d+\.\d KiB are free for \S+: an update needs 256\.0 KiB there$/) as unknown,
    });
  });

  test('is too little for what is measured, of which the queue leaves a part free', async () => {
    await expect(roomBeside(3 * MIB, measuring)).rejects.toMatchObject({
      message: expect.stringContaining(
        'there, and measurements leave 1.0 MiB free ([telemetry] min_free_bytes)',
      ) as unknown,
    });
    const less = '2.0 MiB are free, so that less than [telemetry] max_bytes (1.0 MiB) of measurements can wait there';
    expect(await roomBeside(2 * MIB, measuring)).toBe(less);
    await writeFile(join(place.folder, 'queue.db'), Buffer.alloc(0.5 * MIB));
    expect(await roomBeside(1.5 * MIB, measuring)).toBe('2.0 MiB are free');
  });
});

test('doctor fails with it', async () => {
  const options = { serviceUrl: 'http://127.0.0.1:9', image: Buffer.from('a factory'), slotBytes: 400_000 };
  await using gateway = await FileGateway.create(options);
  gateway.boot();
  const state = join(gateway.directory, 'state');
  await mkdir(state);
  await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'tmpfs', state]);
  const { exitCode, stdout } = await gateway.run('doctor');
  await promisify(execFile)('umount', [state]);
  const told =
    /FAIL state directory \d+\.\d KiB are free for \S+: an update needs 256\.0 KiB there make room there: du -xah/;
  expect([exitCode, stdout.replaceAll(/\s+/g, ' ')]).toEqual([70, expect.stringMatching(told)]);
});
