import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { cacheFolder } from '../../stand-ins/machine/disk-images.ts';
import { tool } from '../../stand-ins/machine/tool.ts';
import { record } from './record.ts';
import { readRecording } from './recording.ts';
import type { Recording } from './recording.ts';
import type { Rig } from './rigs.ts';
import { PATIENCE_MS } from './scenes.ts';
import type { Scene } from './scenes.ts';

/** Every gateway knows it, and none gets it before it has come to rest. */
export const NEXT_VERSION = 'next';

export interface StageOptions {
  readonly name: string;
  readonly scene: Scene;
  readonly rig: Rig;
  /** Not made again while agent, scripts and scene are the same. */
  readonly isKept: boolean;
  readonly onLine?: (line: string) => void;
}

/** The recording of a scene: an earlier one, or one that is made now. */
export async function recordingOf(options: StageOptions): Promise<Recording> {
  const { name, scene, rig } = options;
  const key = createHash('sha256')
    .update(`${rig.images.key} ${name} ${String(scene.play)}`)
    .digest('hex')
    .slice(0, 16);
  const folder = join(cacheFolder, `recording-${name}-${rig.machine}-${rig.bootType}-${key}`);
  if (!options.isKept) await rm(folder, { recursive: true, force: true });
  if (!existsSync(folder)) await make(options, folder);
  return readRecording(folder);
}

async function make({ name, scene, rig, onLine }: StageOptions, folder: string): Promise<void> {
  const draft = `${folder}.images`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true });
  const images: Record<string, string> = {};
  const firmware: Record<string, string> = {};
  for (const [version, difference] of Object.entries(scene.versions)) {
    const image = await rig.images.images.image(difference);
    images[version] = join(draft, `${version}.ext4`);
    firmware[version] = join(draft, `${version}.mender`);
    const artifact = await rig.images.images.sign(version, image);
    await tool(['mv', artifact, firmware[version]]);
    await tool(['mv', image, images[version]]);
  }
  const { next } = rig.images;
  Object.assign(images, { [NEXT_VERSION]: next.image });
  Object.assign(firmware, { [NEXT_VERSION]: next.firmware });
  const disk = join(draft, 'disk.img');
  await rig.makeDisk(Object.values(images)[0] ?? '', disk);
  const more = onLine === undefined ? {} : { onLine };
  const { bootType, openGateway, machine } = rig;
  const { play } = scene;
  const deadlineMs = PATIENCE_MS[machine];
  await record({ scene: name, folder, disk, bootType, images, firmware, play, openGateway, deadlineMs, ...more });
  await rm(disk);
}
