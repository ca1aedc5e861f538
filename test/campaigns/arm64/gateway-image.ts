import { copyFile, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { debianRootFileSystem } from '../../fakes/machine/booting/debian.ts';
import { imageScripts, makeGrubDisk } from '../../fakes/machine/booting/disk-images.ts';
import { files, gatewayPackages, slimming } from '../../fakes/machine/booting/gateway-root.ts';
import { SlotImages } from '../../fakes/machine/booting/slot-images.ts';
import { DEVICE_TYPE } from '../../fakes/machine/gateway-config.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';

/** Programs of arm64 are emulated, one instruction after the other. */
const EMULATED = { timeoutMs: 20 * 60_000 };

/** Debian's kernel for virtual machines has NVMe and ext4 built in, and needs no initrd. Firmware and GRUB are not for the slot. */
const debian = {
  packages: [...gatewayPackages, 'apt', 'linux-image-cloud-arm64', 'grub-efi-arm64-bin', 'qemu-efi-aarch64'],
  architecture: 'arm64',
};

const grubModules = 'usr/lib/grub/arm64-efi';
const firmware = 'usr/share/AAVMF';
const factoryFile = 'root/factory.toml';

/** The factory's answers. Slots, bootloader, serial number and key are detected. */
const factory = `
[service]
url = "http://10.0.2.100"
insecure = true
[device]
device_type = "${DEVICE_TYPE}"
[update]
splay = "0s"
schedule = "*/20 * * * * *"
health = { deadline = "15m" }
[report]
outcome = "update_outcome"
`;

/** As systemd/images/grub makes it. */
const environment = '# GRUB Environment Block\nORDER=A\nATTEMPTS=3\nTRIAL=none\nA_OK=1\nA_TRY=0\nB_OK=0\nB_TRY=0\n';

/** Files that a gateway has and a chroot lacks. Setup checks them. */
const lent: Readonly<Record<string, string>> = {
  'dev/disk/by-partlabel/rootfs-a': '',
  'dev/disk/by-partlabel/rootfs-b': '',
  'boot/grub/grubenv': environment.padEnd(1024, '#'),
  'sys/firmware/devicetree/base/serial-number': 'GW-0000\0',
};

/** Commands at the console, once in each start, when the agent is idle. */
const examination = [
  '#!/bin/sh',
  'cd /var/lib/thing-agent',
  `until test -s identity.json && grep -q '"phase":{"kind":"idle"' journal.json; do sleep 2; done`,
  'for command in doctor status; do',
  '  agent "$command" >/dev/console 2>&1',
  '  echo "*** agent $command ended with $?" >/dev/console',
  'done',
  '',
].join('\n');

/** Replaces a network time service: the emulator's time falls behind, its hardware clock does not. */
const networkTime =
  '#!/bin/sh\nwhile :; do date -s "@$(cat /sys/class/rtc/rtc0/since_epoch)" >/dev/null; sleep 2; done\n';

const units = 'etc/systemd/system';

const programs: Readonly<Record<string, string>> = {
  [`${units}/examination.service`]:
    '[Unit]\nAfter=thing-agent.service\nRequiresMountsFor=/var/lib/thing-agent\n[Service]\nExecStart=/usr/lib/app/examination\n',
  'usr/lib/app/examination': examination,
  [`${units}/network-time.service`]: '[Service]\nExecStart=/usr/lib/app/network-time\n',
  'usr/lib/app/network-time': networkTime,
};

export interface GatewayParts extends AsyncDisposable {
  /** As the factory delivers it: v1 is in slot A. */
  readonly disk: string;
  readonly efi: { readonly code: string; readonly variables: string };
  /** The signed artifact of v2. */
  readonly firmware: string;
}

/** The disk of a gateway for arm64 with this package, and the next release. */
export async function makeGateway(deb: string, folder: string): Promise<GatewayParts> {
  const root = join(folder, 'root');
  await mkdir(root);
  await tool(['tar', '-xf', await debianRootFileSystem(debian), '-C', root], { timeoutMs: 300_000 });
  for (const part of [grubModules, firmware]) await rename(join(root, part), join(folder, basename(part)));
  const keys = makeKeyPair('ecdsa-p256');
  await install(root, deb, keys.publicPem);
  await finish(root);
  const names = await readFile(join(root, 'usr/lib/os-release'), 'utf8');
  const base = join(folder, 'base.ext4');
  await tool([join(imageScripts, 'slot'), '--root', root, '--out', base, '--boot-type', 'vfat'], EMULATED);
  await rm(root, { recursive: true });
  const options = { keys, files: {}, deviceType: DEVICE_TYPE, compression: 'gzip', kept: base } as const;
  const images = await SlotImages.open(options);
  const release = (version: string) => ({ '/usr/lib/os-release': `${names}IMAGE_VERSION=${version}\n` });
  const slot = await images.image(release('v1'));
  const disk = join(folder, 'disk.img');
  await makeGrubDisk({ slot, out: disk, bootType: 'vfat', firmware: 'efi', arm64Modules: join(folder, 'arm64-efi') });
  return {
    disk,
    efi: { code: join(folder, 'AAVMF/AAVMF_CODE.fd'), variables: join(folder, 'AAVMF/AAVMF_VARS.fd') },
    firmware: await images.artifact('v2', release('v2')),
    [Symbol.asyncDispose]: async () => images[Symbol.asyncDispose](),
  };
}

/** The agent opens files through /proc. The mount ends with the command. */
const IN_CHROOT = 'mount -t proc proc "$1/proc"; chroot "$1" sh -ec "$2"';

/** The three lines of README.md. */
async function install(root: string, deb: string, publicPem: string): Promise<void> {
  const given = { ...lent, [factoryFile]: factory, 'etc/thing-agent/trust/release.pem': publicPem };
  await put(root, given);
  await copyFile(deb, join(root, 'root/thing-agent.deb'));
  // without a network: what the package needs is there, and setup need not wait for a service that is not
  const inside = async (command: string): Promise<string> =>
    tool(['unshare', '--net', '--mount', 'sh', '-ec', IN_CHROOT, 'sh', root, command], EMULATED);
  await inside('apt-get install -y /root/thing-agent.deb');
  await inside(`agent setup --yes --from /${factoryFile}`);
  await inside('systemctl enable thing-agent');
  for (const path of [...Object.keys(lent), factoryFile, 'root/thing-agent.deb']) await rm(join(root, path));
}

async function finish(root: string): Promise<void> {
  const slim = slimming('aarch64-linux-gnu', '', ['99-thing-agent']);
  await tool(['sh', '-c', `cd "$1" && { ${slim.trim()}\n}`, 'sh', root], EMULATED);
  // an emulated machine's trial has the half hour of the package
  const others = Object.entries(files).filter(([path]) => !path.includes('thing-agent-trial'));
  await put(root, { ...Object.fromEntries(others), ...programs, 'etc/machine-id': '' });
  for (const name of ['examination.service', 'network-time.service']) {
    await symlink(`../${name}`, join(root, units, 'multi-user.target.wants', name));
  }
}

async function put(root: string, texts: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(texts)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text, { mode: text.startsWith('#!') ? 0o755 : 0o644 });
  }
}
