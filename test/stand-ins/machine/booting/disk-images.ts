import { createHash, createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

import { makeKeyPair, pemOf } from '../../../rooms/firmware/artifact/keys.ts';
import { DEVICE_TYPE, gatewayConfig } from '../gateway-config.ts';
import type { GatewayConfig } from '../gateway-config.ts';
import { tool } from '../tool.ts';
import type { DebianRecipe } from './debian.ts';
import { SlotImages } from './slot-images.ts';
import type { SlotImagesOptions } from './slot-images.ts';

const project = resolve(import.meta.dirname, '../../../..');
export const imageScripts = join(project, 'systemd/images');
export const cacheFolder = join(project, '.cache/boots');

const drivers = [
  'drivers/virtio',
  'drivers/net/virtio_net.ko',
  'drivers/net/net_failover.ko',
  'net/core/failover.ko',
  'fs/fat',
  'fs/nls',
];

/** Of udev: what names disks, partitions and the network's card. */
const rules = ['50-udev-default', '60-block', '60-persistent-storage.rules', '80-drivers', '80-net', '99-systemd'];

/**
 * A gateway's root file system: Debian's kernel, which has NVMe and ext4 built in and needs no initrd, systemd, and what
 * README.md and the bootloader want. What nobody uses there is taken out, because an emulated machine moves each byte slowly.
 * The kernel prefers another address (`pref_address` of the Linux/x86 boot protocol), where it is also read to: GRUB of a BIOS
 * would move its 52 MiB byte by byte, and the kernel unpacks itself to the same place as ever.
 */
const debian: DebianRecipe = {
  packages: [
    'systemd-sysv',
    'udev',
    'kmod',
    'libstdc++6',
    'util-linux',
    'e2fsprogs',
    'dosfstools',
    'grub-common',
    'linux-image-cloud-amd64',
  ],
  finish: String.raw`
    set -e
    cp -L boot/vmlinuz-* vmlinuz.new && rm -rf boot/* initrd.img* vmlinuz vmlinuz.old && mv vmlinuz.new vmlinuz
    version=$(ls usr/lib/modules) && mkdir kept
    (cd usr/lib/modules/$version/kernel && cp -r --parents ${drivers.join(' ')} /$OLDPWD/kept/)
    rm -rf usr/lib/modules/$version/kernel && mv kept usr/lib/modules/$version/kernel
    chroot . depmod $version
    rm -rf usr/share/perl* usr/lib/x86_64-linux-gnu/perl* usr/lib/x86_64-linux-gnu/gconv usr/lib/x86_64-linux-gnu/libperl*
    rm -rf usr/bin/perl* usr/share/grub usr/lib/udev/hwdb* var/lib/dpkg var/lib/apt var/cache/* usr/share/zsh usr/lib/grub
    find usr/bin usr/sbin -name 'grub-*' ! -name grub-editenv -delete
    rm -f usr/bin/localedef usr/sbin/ldconfig usr/lib/x86_64-linux-gnu/libfreetype* usr/bin/dpkg*
    mkdir -p etc/systemd/system/multi-user.target.wants
    ln -sf /usr/lib/systemd/system/systemd-networkd.service etc/systemd/system/multi-user.target.wants/
    find usr/lib/systemd/system-generators -type f ! -name systemd-fstab-generator -delete
    rm -f usr/lib/systemd/system/sysinit.target.wants/*.automount usr/lib/systemd/system/sysinit.target.wants/*.mount
    rm -rf usr/lib/systemd/system/modprobe@* etc/systemd/system/timers.target.wants usr/lib/systemd/system/timers.target.wants
    (cd usr/lib/udev/rules.d && ls | grep -Ev '${rules.join('|')}' | xargs rm)
    printf '\000\000\020\000' | dd of=vmlinuz bs=1 seek=600 conv=notrunc status=none
    true
  `,
};

const masked = [
  'e2scrub_reap.service',
  'getty-static.service',
  'getty@tty1.service',
  'systemd-binfmt.service',
  'systemd-fsckd.socket',
  'systemd-initctl.socket',
  'systemd-journald-audit.socket',
  'systemd-logind.service',
  'systemd-modules-load.service',
  'systemd-pcrphase.service',
  'systemd-pcrphase-sysinit.service',
  'systemd-pstore.service',
  'systemd-random-seed.service',
  'systemd-sysctl.service',
  'systemd-update-utmp.service',
  'systemd-user-sessions.service',
];

const files: Readonly<Record<string, string>> = {
  '/etc/fstab': '',
  '/etc/hostname': 'gateway\n',
  // An emulated machine's half hour would be a long one.
  '/etc/systemd/system/thing-agent-trial.timer.d/soon.conf': '[Timer]\nOnBootSec=\nOnBootSec=5min\n',
  '/etc/systemd/system/thing-agent-trial.service.d/soon.conf': '[Service]\nEnvironment=PATIENCE=60\nRestartSec=1min\n',
  // Its udev was seen to need more than the half minute of the page for integrators to find the state partition.
  [String.raw`/etc/systemd/system/dev-disk-by\x2dpartlabel-state.device.d/90-slow.conf`]:
    '[Unit]\nJobRunningTimeoutSec=10min\n',
  // What a release changes: room for it in every image.
  '/opt/application': 'x'.repeat(2 * 1024 * 1024),
  '/etc/systemd/network/ethernet.network':
    '[Match]\nName=e*\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nLinkLocalAddressing=no\n',
  // Of all devices these alone are asked for at a start.
  '/etc/systemd/system/systemd-udev-trigger.service.d/few.conf':
    '[Service]\nExecStart=\nExecStart=-udevadm trigger --action=add ' +
    '--subsystem-match=block --subsystem-match=net --subsystem-match=pci --subsystem-match=virtio\n',
  // Masked: they only cost time on an emulated machine.
  ...Object.fromEntries(masked.map((unit) => [`/etc/systemd/system/${unit}`, ''])),
  '/initrd.img': emptyArchive(),
};

/** cpio(5), "newc": the kernel takes it for a root file system in memory without an /init, and mounts `root=`. */
function emptyArchive(): string {
  const name = 'TRAILER!!!\0';
  const fields = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.length, 0];
  const text = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}${name}`;
  return text.padEnd(512, '\0');
}

export type BootType = 'ext4' | 'vfat';

/** What all images of a gateway have in common. */
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
 * The images of a virtual gateway. What they are made from is kept in `.cache/boots`, together with the key that signs their
 * firmware, until the agent, the scripts or the recipe change.
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
  '/usr/lib/thing-agent/agent': 'agent',
  '/usr/lib/thing-agent/tree.a/bin/node': 'runtime',
  '/usr/lib/app/healthy': '#!/bin/sh\n',
  '/opt/application': 'x'.repeat(2 * 1024 * 1024),
  '/vmlinuz': 'a kernel '.repeat(100_000),
  '/initrd.img': 'an initrd',
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
  /** Of the second pair of partitions. */
  readonly kernel?: string | undefined;
}

/**
 * The kernel's command line, beside what the page for integrators says. Without random addresses the emulator finds again what it
 * translated of a library for another program.
 */
const kernelArguments = [
  'console=ttyS0 systemd.volatile=state systemd.journald.forward_to_console=1 systemd.show_status=no quiet mitigations=off',
  'apparmor=0 selinux=0 audit=0 cryptomgr.notests nokaslr norandmaps random.trust_cpu=on',
].join(' ');

/** A gateway's whole disk, as the factory delivers it. */
export async function makeGrubDisk({ slot, out, bootType, firmware = 'bios', kernel }: DiskOptions): Promise<void> {
  const options = {
    slot,
    out,
    'boot-type': bootType,
    firmware,
    args: kernelArguments,
    'state-size': '16',
    'boot-size': '12',
    ...(kernel === undefined ? {} : { kernel }),
  };
  const given = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  await tool([join(imageScripts, 'grub'), '--serial', ...given]);
}
