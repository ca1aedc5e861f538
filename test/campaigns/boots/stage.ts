import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { cacheFolder } from '../../fakes/machine/booting/disk-images.ts';
import { readRecording } from './disk/recording.ts';
import type { Recording } from './disk/recording.ts';
import { makeReleases } from './gateways/releases.ts';
import type { Rig } from './gateways/rigs.ts';
import { record } from './record.ts';
import { PATIENCE_MS } from './scenes.ts';
import type { Scene } from './scenes.ts';

export interface StageOptions {
  readonly name: string;
  readonly scene: Scene;
  readonly rig: Rig;
  /** Not made again while agent, scripts and scene are the same. */
  readonly isKept: boolean;
  readonly onLine?: (line: string) => void;
}

/** Returns the recording of a scene: an earlier one, or a new one. */
export async function recordingOf(options: StageOptions): Promise<Recording> {
  const { name, scene, rig } = options;
  const key = createHash('sha256')
    .update(`${rig.images.key} ${name} ${String(scene.play)}`)
    .digest('hex')
    .slice(0, 16);
  const folder = join(cacheFolder, `recording-${name}-${rig.machine}-${rig.firmware}-${rig.bootType}-${key}`);
  if (!options.isKept) await rm(folder, { recursive: true, force: true });
  if (!existsSync(folder)) await make(options, folder);
  return readRecording(folder);
}

async function make({ name, scene, rig, onLine }: StageOptions, folder: string): Promise<void> {
  const draft = `${folder}.images`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true });
  const releases = await makeReleases(scene, rig.images, draft);
  const disk = join(draft, 'disk.img');
  const [slot = ''] = Object.values(releases.images);
  await rig.makeDisk({ slot, kernel: Object.values(releases.kernels)[0], out: disk });
  const more = onLine === undefined ? {} : { onLine };
  const { bootType, openGateway, startBoard, machine } = rig;
  const { play } = scene;
  const deadlineMs = PATIENCE_MS[machine];
  await record({ scene: name, folder, disk, bootType, releases, play, openGateway, startBoard, deadlineMs, ...more });
  await rm(disk);
}
