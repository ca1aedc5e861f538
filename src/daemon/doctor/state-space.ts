import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import { formatBytes } from '../../control/presentation/bytes.ts';
import { valueOrUndefined } from '../../system/errors.ts';
import { STAGING_ROOM_BYTES } from '../../update/journal/state.ts';
import { DaemonError } from '../errors.ts';

/** The part of a configuration that determines the required space in the state directory. */
export interface StateUse {
  readonly paths: Pick<Config['paths'], 'state'>;
  readonly targets: readonly unknown[];
  readonly measurements: readonly unknown[];
  readonly telemetry: {
    readonly minFreeBytes: number;
    readonly bounds: { readonly maxBytes: number };
  };
}

/**
 * Describes the free space of the state directory for an operator. Throws `state-nearly-full` if an update would not
 * begin, or if no further measurement could be queued on disk. Existing queued data needs no further space.
 */
export async function describeFreeSpace({ paths, targets, measurements, telemetry }: StateUse): Promise<string> {
  const { bavail, blocks, bsize } = await statfs(paths.state);
  if (blocks === 0) return 'its file system does not say what is free';
  const free = bavail * bsize;
  const forUpdate = targets.length === 0 ? 0 : STAGING_ROOM_BYTES;
  const reserve = measurements.length === 0 ? 0 : telemetry.minFreeBytes;
  if (free < forUpdate + reserve) {
    const needs = [
      ...(forUpdate === 0 ? [] : [`an update needs ${formatBytes(forUpdate)} there`]),
      ...(reserve === 0 ? [] : [`measurements leave ${formatBytes(reserve)} free ([telemetry] reserve_bytes)`]),
    ];
    const message = `${formatBytes(free)} are free for ${paths.state}: ${needs.join(', and ')}`;
    throw new DaemonError('state-nearly-full', message, {
      advice: `make room there: du -xah ${paths.state} | sort -h`,
    });
  }
  const held = (await valueOrUndefined(stat(join(paths.state, 'queue.db'))))?.size ?? 0;
  const { maxBytes } = telemetry.bounds;
  const isShort = measurements.length > 0 && free - forUpdate - reserve < maxBytes - held;
  const short = `, so that less than [telemetry] max_bytes (${formatBytes(maxBytes)}) of measurements can wait there`;
  return `${formatBytes(free)} are free${isShort ? short : ''}`;
}
