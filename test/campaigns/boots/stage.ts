import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { cacheFolder, makeGrubDisk, openGatewayImages } from '../../stand-ins/machine/disk-images.ts';
import type { BootType, GatewayImages } from '../../stand-ins/machine/disk-images.ts';
import { tool } from '../../stand-ins/machine/tool.ts';
import { record } from './record.ts';
import { readRecording } from './recording.ts';
import type { Recording } from './recording.ts';
import type { Scene } from './scenes.ts';

export interface StageOptions {
  readonly name: string;
  readonly scene: Scene;
  readonly bootType: BootType;
  /** Not made again while agent, scripts and scene are the same. */
  readonly isKept: boolean;
  readonly onLine?: (line: string) => void;
}

/** The recording of a scene: an earlier one, or one that is made now. */
export async function recordingOf(options: StageOptions): Promise<Recording> {
  const { name, scene, bootType } = options;
  const images = await openGatewayImages({ bootType });
  try {
    const key = createHash('sha256')
      .update(`${images.key} ${name} ${String(scene.play)}`)
      .digest('hex')
      .slice(0, 16);
    const folder = join(cacheFolder, `recording-${name}-${bootType}-${key}`);
    if (!options.isKept) await rm(folder, { recursive: true, force: true });
    if (!existsSync(folder)) await make(options, images, folder);
    return readRecording(folder);
  } finally {
    await images[Symbol.asyncDispose]();
  }
}

async function make(
  { name, scene, bootType, onLine }: StageOptions,
  made: GatewayImages,
  folder: string,
): Promise<void> {
  const draft = `${folder}.images`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true });
  const images: Record<string, string> = {};
  const firmware: Record<string, string> = {};
  for (const [version, difference] of Object.entries(scene.versions)) {
    const image = await made.images.image(difference);
    images[version] = join(draft, `${version}.ext4`);
    firmware[version] = join(draft, `${version}.mender`);
    const artifact = await made.images.sign(version, image);
    await tool(['mv', artifact, firmware[version]]);
    await tool(['mv', image, images[version]]);
  }
  const disk = join(draft, 'disk.img');
  await makeGrubDisk({ slot: Object.values(images)[0] ?? '', out: disk, bootType });
  const more = onLine === undefined ? {} : { onLine };
  await record({ scene: name, folder, disk, bootType, images, firmware, play: scene.play, ...more });
  await rm(disk);
}
