import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { howMuch } from '../../full.ts';
import { Killing, PowerCut } from './deaths.ts';
import { QueueRig, drain, points, values } from './queue/queue-rig.ts';
import { replay } from './replay.ts';

test.each([
  ['kill -9', howMuch(30_000, 12_000), Killing],
  ['a power cut', howMuch(15_000, 8_000), PowerCut],
])('%s at random loses no acknowledged point, and repeated points keep their time', async (...way) => {
  const [, count, Death] = way;
  const directory = mkdtempSync(join(tmpdir(), 'replay-'));
  {
    using death = new Death(directory);
    const result = await replay(count, death, Math.random);
    expect(result).toMatchObject({ acknowledged: count, missing: 0, changed: 0 });
    expect(result.deaths).toBeGreaterThan(0);
  }
  rmSync(directory, { recursive: true });
});

test('a power loss at any moment loses no acknowledged point', () => {
  const directory = mkdtempSync(join(tmpdir(), 'power-'));
  const [image, mount] = [join(directory, 'image'), join(directory, 'mount')];
  execFileSync('truncate', ['-s', '32M', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  mkdirSync(mount);
  execFileSync('mount', ['-o', 'loop', image, mount]);
  try {
    using rig = new QueueRig({ path: join(mount, 'queue.db') });
    for (let cut = 1; cut <= 5; cut += 1) {
      rig.queue.push(points(100 * cut, `event-${cut}`));
      expect(rig.queue.flush()).toBe(true);
      rig.queue.push(points(3, 'not-acknowledged'));
      const after = afterPowerCut(image, join(directory, `cut-${cut}`));
      for (let event = 1; event <= cut; event += 1) expect(after.get(`event-${event}`)).toBe(100 * event);
    }
  } finally {
    execFileSync('umount', [mount]);
    rmSync(directory, { recursive: true });
  }
});

/** Returns the queue's content on a copy of the medium, made while all unflushed data is in memory. */
function afterPowerCut(image: string, directory: string): ReadonlyMap<string, number> {
  const [copy, mount] = [`${directory}.img`, directory];
  copyFileSync(image, copy);
  mkdirSync(mount);
  execFileSync('mount', ['-o', 'loop', copy, mount]);
  try {
    using rig = new QueueRig({ path: join(mount, 'queue.db') });
    const found = new Map<string, number>();
    for (const batch of drain(rig.queue)) {
      const { name } = batch.stream;
      found.set(name, (found.get(name) ?? 0) + values(batch).length);
    }
    return found;
  } finally {
    execFileSync('umount', [mount]);
  }
}
