import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

import type { DatapointQueue } from '../../../src/telemetry/queue/queue.ts';
import { QueueRig, noStreams, points } from '../../unit-and-integration/telemetry/queue/queue-rig.ts';

const GROUPS_PER_DAY = 8_640;
const SECTOR_BYTES = 512;
/** Until the write-ahead log has its size. */
const WARM_UP_GROUPS = 200;

/**
 * Ten points a second, 100 in each group of ten seconds, into a queue on ext4 on a loop device: megabytes that reach the
 * device, per day. Online, the service takes each group before it is due.
 */
export function writtenPerDay(groups: number): { readonly offlineMb: number; readonly onlineMb: number } {
  const directory = mkdtempSync(join(tmpdir(), 'flash-'));
  const [image, mount] = [join(directory, 'image'), join(directory, 'mount')];
  execFileSync('truncate', ['-s', '256M', image]);
  execFileSync('mkfs.ext4', ['-q', image]);
  mkdirSync(mount);
  execFileSync('mount', ['-o', 'loop,noatime', image, mount]);
  try {
    using rig = new QueueRig({ path: join(mount, 'queue.db') });
    const perDay = (count: number, deliver: boolean): number => {
      const before = bytesWritten(mount);
      for (let group = 0; group < count; group += 1) {
        for (let event = 0; event < 5; event += 1) rig.queue.push(points(20, `event-${event}`));
        if (deliver) acceptAll(rig.queue);
        rig.queue.flush();
      }
      return ((bytesWritten(mount) - before) / count / 1e6) * GROUPS_PER_DAY;
    };
    perDay(WARM_UP_GROUPS, false);
    return { offlineMb: perDay(groups, false), onlineMb: perDay(groups, true) };
  } finally {
    execFileSync('umount', [mount]);
    rmSync(directory, { recursive: true });
  }
}

/** Documentation/block/stat.rst in the kernel: the seventh field is sectors written. */
function bytesWritten(mount: string): number {
  execFileSync('sync', ['-f', mount]);
  const device = basename(execFileSync('findmnt', ['-no', 'SOURCE', mount], { encoding: 'utf8' }).trim());
  return Number(readFileSync(`/sys/block/${device}/stat`, 'utf8').trim().split(/\s+/)[6]) * SECTOR_BYTES;
}

function acceptAll(queue: DatapointQueue): void {
  for (
    let batch = queue.take('live', 500, noStreams);
    batch !== undefined;
    batch = queue.take('live', 500, noStreams)
  ) {
    queue.accepted(batch, batch.points.length);
    queue.release(batch);
  }
}
