import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { buildHello } from '../../../fakes/boards/avr/simulated-avr.ts';
import { writeIntelHex } from '../../../fakes/boards/write-intel-hex.ts';
import type { GatewayImages } from '../../../fakes/machine/booting/disk-images.ts';
import type { SlotImages } from '../../../fakes/machine/booting/slot-images.ts';
import { gatewayConfig } from '../../../fakes/machine/gateway-config.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import type { RecordingFacts } from '../disk/recording.ts';
import type { Scene } from '../scenes.ts';
import { boardToml, PROGRAM_BYTES } from './gateway-board.ts';

/** Every gateway knows it, and none gets it before it has come to rest. */
export const NEXT_VERSION = 'next';

/** Version → file: what is in its slot, and its artifact. */
export type Releases = Pick<RecordingFacts, 'images' | 'kernels' | 'boards' | 'firmware'>;

/** For a gateway with two pairs of partitions. */
const kernelTarget = `[targets.kernel]
kind = "slots"
slots = { A = "/dev/disk/by-partlabel/kernel-a", B = "/dev/disk/by-partlabel/kernel-b" }
`;

/** The serial port of an emulated machine. */
const SERIAL_PORT = '/dev/ttyS1';

function targets(beside: NonNullable<Scene['beside']>): string {
  return beside.map((part) => (part === 'kernel' ? kernelTarget : boardToml(SERIAL_PORT))).join('\n');
}

/** The releases of a scene, and the next one, in this folder. */
export async function makeReleases(scene: Scene, { images, next }: GatewayImages, folder: string): Promise<Releases> {
  const { beside = [], versions } = scene;
  const releases: Releases = { images: {}, kernels: {}, boards: {}, firmware: {} };
  for (const version of Object.keys(versions)) await make(releases, version, { scene, images, folder });
  if (beside.length > 0) await make(releases, NEXT_VERSION, { scene, images, folder });
  else {
    releases.images[NEXT_VERSION] = next.image;
    releases.firmware[NEXT_VERSION] = next.firmware;
  }
  return releases;
}

interface Making {
  readonly scene: Scene;
  readonly images: SlotImages;
  readonly folder: string;
}

async function make(releases: Releases, version: string, { scene, images, folder }: Making): Promise<void> {
  const { beside = [] } = scene;
  const place = join(folder, version);
  await mkdir(place);
  const file = (name: string): string => join(place, name);
  const parts: Record<string, string> = {};
  const isRootless = scene.rootless?.includes(version) === true;
  const image = isRootless ? (Object.values(releases.images).at(-1) ?? '') : file('rootfs.ext4');
  if (!isRootless) {
    const config =
      beside.length > 0 ? { '/etc/thing-agent/config.toml': gatewayConfig({ extra: targets(beside) }) } : {};
    const difference = scene.versions[version] ?? { '/etc/app-version': version };
    await tool(['mv', await images.image({ ...config, ...difference }), image]);
    parts['gateway'] = image;
  }
  releases.images[version] = image;
  if (beside.includes('kernel')) {
    releases.kernels[version] = parts['kernel'] = file('kernel.ext4');
    await makeKernel(image, version, file('kernel.ext4'));
  }
  if (beside.includes('board')) {
    parts['meter'] = file('meter.hex');
    releases.boards[version] = file('meter.memory');
    await makeProgram(Object.keys(releases.boards).length, file('meter.hex'), file('meter.memory'));
  }
  const artifact =
    beside.length === 0
      ? await images.sign(version, image)
      : await images.signParts(version, parts, 'meter' in parts ? ['meter'] : []);
  releases.firmware[version] = file('release.mender');
  await tool(['mv', artifact, file('release.mender')]);
}

/** The second partition of a slot: the kernel of its root file system, and something that no other version has. */
async function makeKernel(image: string, version: string, out: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'kernel-'));
  try {
    for (const part of ['vmlinuz', 'initrd.img']) {
      await tool(['debugfs', '-R', `dump /${part} ${join(folder, part)}`, image]);
    }
    await writeFile(join(folder, 'version'), `${version}\n`.repeat(100_000));
    const size = Number.parseInt(await tool(['du', '-s', '--block-size=1M', folder]), 10) + 2;
    await tool(['mkfs.ext4', '-q', '-F', '-b', '4096', '-m', '0', '-O', '^has_journal', '-d', folder, out, `${size}M`]);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Makes the board's program, both as a file of a release and as the chip's memory. */
async function makeProgram(number: number, hex: string, memory: string): Promise<void> {
  const elf = await buildHello({ version: number, fillBytes: 600, bootloader: 'optiboot' });
  const program = readImage(await readFile(elf));
  const flash = Buffer.alloc(PROGRAM_BYTES, 0xff);
  for (const { address, bytes } of program.segments) flash.set(bytes, address);
  await writeFile(hex, writeIntelHex(program));
  await writeFile(memory, flash);
}
