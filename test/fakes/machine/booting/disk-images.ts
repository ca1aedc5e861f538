import { createHash, createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

import { makeKeyPair, pemOf } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import { DEVICE_TYPE, gatewayConfig } from '../gateway-config.ts';
import type { GatewayConfig } from '../gateway-config.ts';
import { tool } from '../tool.ts';
import { debian, files } from './gateway-root.ts';
import { SlotImages } from './slot-images.ts';
import type { SlotImagesOptions } from './slot-images.ts';

const project = resolve(import.meta.dirname, '../../../..');
export const imageScripts = join(project, 'systemd/images');
/** The files of an installed, enabled and configured agent, without which `slot` makes no image or warns. */
export const agentFiles = [
  'usr/lib/thing-agent/agent',
  'etc/systemd/system/multi-user.target.wants/thing-agent.service',
  'etc/systemd/system/sysinit.target.wants/thing-agent-trial.timer',
  'etc/thing-agent/config.toml',
];
export const cacheFolder = join(project, '.cache/boots');

export type BootType = 'ext4' | 'vfat';

/** Common settings of all images of a gateway. */
export interface Variety {
  readonly bootType: BootType;
  readonly config?: GatewayConfig;
}

export interface GatewayImages extends AsyncDisposable {
  /** Names everything that all images have in common: the agent, the scripts, the recipe. */
  readonly key: string;
  readonly keys: SlotImagesOptions['keys'];
  readonly images: SlotImages;
  /** A good image, and its firmware, which stay where they are. */
  readonly next: { readonly image: string; readonly firmware: string };
}

/**
 * The images of a virtual gateway. Their parts, with the signing key of their releases, stay in `.cache/boots` until
 * the agent, the scripts or the recipe change.
 */
export async function openGatewayImages(variety: Variety): Promise<GatewayImages> {
  const key = await keyOf([debian, files, variety, gatewayConfig(variety.config)]);
  return openKeptImages(key, (keys) => recipe(keys, variety));
}

/** Images of a few files, for gateways whose kernel and programs are this machine's. */
export async function openSmallImages(): Promise<GatewayImages> {
  const key = keyed([await digests(project, 'agent', 'src', 'systemd/images'), JSON.stringify(smallFiles)]);
  const folder = join(cacheFolder, `base-${key}`);
  if (!existsSync(join(folder, 'base.ext4'))) {
    const root = await mkdtemp(join(tmpdir(), 'small-root-'));
    for (const [path, text] of Object.entries(smallFiles)) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), text, { mode: text.startsWith('#!') ? 0o755 : 0o644 });
    }
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'private.pem'), makeKeyPair('ecdsa-p256').privatePem);
    const out = join(folder, 'base.ext4');
    await tool([join(imageScripts, 'slot'), '--root', root, '--out', `${out}.new`, '--size', '12']);
    await rename(`${out}.new`, out);
    await rm(root, { recursive: true });
  }
  return openKeptImages(key, (keys) => ({ keys, deviceType: DEVICE_TYPE, files: {} }));
}

const smallFiles: Readonly<Record<string, string>> = {
  '/usr/lib/systemd/systemd': 'init',
  ...Object.fromEntries(agentFiles.map((file) => [`/${file}`, 'agent'])),
  '/usr/lib/thing-agent/tree.a/bin/node': 'runtime',
  '/usr/lib/app/healthy': '#!/bin/sh\n',
  '/opt/application': 'x'.repeat(2 * 1024 * 1024),
  '/vmlinuz': 'a kernel '.repeat(100_000),
  '/initrd.img': 'an initrd',
  '/etc/fstab': 'PARTLABEL=boot /boot auto noatime 0 0\n',
};

type Recipe = (keys: SlotImagesOptions['keys']) => SlotImagesOptions;

async function openKeptImages(key: string, recipeWith: Recipe): Promise<GatewayImages> {
  const folder = join(cacheFolder, `base-${key}`);
  const keys = await keptKeys(folder);
  const images = await openSlotImages(folder, recipeWith(keys));
  const next = { image: join(folder, 'next.ext4'), firmware: join(folder, 'next.mender') };
  if (!existsSync(next.firmware)) {
    await tool(['mv', await images.image({ '/etc/app-version': 'next' }), next.image]);
    await tool(['mv', await images.sign('next', next.image), next.firmware]);
  }
  return { key, keys, images, next, [Symbol.asyncDispose]: async () => images[Symbol.asyncDispose]() };
}

async function keptKeys(folder: string): Promise<SlotImagesOptions['keys']> {
  const file = join(folder, 'private.pem');
  await mkdir(folder, { recursive: true });
  if (!existsSync(file)) await writeFile(file, makeKeyPair('ecdsa-p256').privatePem);
  const privatePem = await readFile(file, 'utf8');
  return { privatePem, publicPem: pemOf(createPublicKey(privatePem), 'spki') };
}

async function openSlotImages(folder: string, options: SlotImagesOptions): Promise<SlotImages> {
  const kept = join(folder, 'base.ext4');
  if (existsSync(kept)) return SlotImages.open({ ...options, kept });
  const images = await SlotImages.open(options);
  await copyFile(images.base, `${kept}.new`);
  await rename(`${kept}.new`, kept);
  return images;
}

/** Everything that goes into the images: the built agent, the scripts, the recipe. */
async function keyOf(others: readonly unknown[]): Promise<string> {
  const tree = await mkdtemp(join(tmpdir(), 'tree-'));
  try {
    await tool(['npm', 'run', '--silent', '--prefix', project, 'build', '--', '--out', tree]);
    return keyed([await digests(tree, '.'), await digests(imageScripts, '.'), JSON.stringify(others)]);
  } finally {
    await rm(tree, { recursive: true });
  }
}

async function digests(folder: string, ...places: readonly string[]): Promise<string> {
  const listed = `find ${places.join(' ')} -type f -print0 | sort -z | xargs -0 sha256sum`;
  return tool(['sh', '-c', `cd '${folder}' && ${listed}`]);
}

function keyed(parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 16);
}

/** How the images of a virtual gateway are made. */
function recipe(keys: SlotImagesOptions['keys'], { bootType, config = {} }: Variety): SlotImagesOptions {
  return {
    keys,
    deviceType: DEVICE_TYPE,
    debian,
    compression: 'gzip',
    files: {
      ...files,
      '/etc/thing-agent/config.toml': gatewayConfig(config),
      '/usr/lib/app/healthy': '#!/bin/sh\n',
    },
    makeImage: async (root, image) => {
      await tool(['strip', join(root, 'usr/lib/thing-agent/tree.a/bin/node')]);
      await tool([join(imageScripts, 'slot'), '--root', root, '--out', image, '--boot-type', bootType]);
    },
  };
}

export interface DiskOptions {
  readonly slot: string;
  readonly out: string;
  readonly bootType: BootType;
  readonly firmware?: 'bios' | 'efi' | undefined;
  /** Directory of GRUB's modules for arm64. Default: an amd64 machine. */
  readonly arm64Modules?: string | undefined;
  /** The kernel in the second pair of partitions. */
  readonly kernel?: string | undefined;
  /** More of the kernel's arguments; if not given, that nothing is written to the root file system. */
  readonly more?: string | undefined;
}

/**
 * The kernel's command line of an emulated machine. Without random addresses the emulator finds again what it translated of a library
 * for another program.
 */
const kernelArguments = [
  'systemd.journald.forward_to_console=1 systemd.show_status=no quiet mitigations=off',
  'apparmor=0 selinux=0 audit=0 cryptomgr.notests nokaslr norandmaps random.trust_cpu=on',
].join(' ');

/** A gateway's whole disk, as the factory delivers it. */
export async function makeGrubDisk(disk: DiskOptions): Promise<void> {
  const { slot, out, bootType, firmware = 'bios', kernel, arm64Modules, more = 'systemd.volatile=state' } = disk;
  const port = arm64Modules === undefined ? 'ttyS0' : 'ttyAMA0';
  const options = {
    slot,
    out,
    'boot-type': bootType,
    firmware,
    args: `console=${port} ${more} ${kernelArguments}`,
    'state-size': '16',
    'boot-size': '12',
    ...(kernel === undefined ? {} : { kernel }),
    ...(arm64Modules === undefined ? {} : { arch: 'arm64', modules: arm64Modules }),
  };
  const given = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  // UEFI of the emulated arm64 machine uses its serial port by default
  const serial = arm64Modules === undefined ? ['--serial'] : [];
  await tool([join(imageScripts, 'grub'), ...serial, ...given]);
}
