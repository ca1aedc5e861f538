import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { codenameOfThisMachine, keptFolder, packageSources } from '../../../fakes/machine/booting/debian.ts';
import { tool } from '../../../fakes/machine/tool.ts';

/**
 * Packages of a gateway with a shell, a network and some services; without a kernel, which is the same in all of them.
 */
const packages =
  'systemd-sysv,dbus,libstdc++6,util-linux,openssl,libssl3,ca-certificates,openssh-server,python3-minimal,curl,iproute2,udev,kmod,' +
  'nftables,sudo,vim-tiny,libsqlite3-0,libxml2,libexpat1,krb5-user';
const leftOut = ['doc', 'man', 'info', 'locale', 'zoneinfo'];
const IMAGE_MIB = 320;
const CHANGED_SHARE = 0.08;
const NEW_PROGRAM_BYTES = 1_500_000;
const LONG_MS = 900_000;

/** Path of each image; `base` is what all the others are updates of. */
export type DeltaImages = Readonly<Record<'base' | Pair, string>>;
export type Pair = (typeof pairs)[number];
export const pairs = ['security', 'point', 'application'] as const;

/**
 * Debian as it was released; with the newest OpenSSL alone; with all that came since; and the first one with eight of a
 * hundred files changed, each a little, and a new program. Made once, from this machine's own package sources, and kept.
 */
export async function makeDeltaImages(tell: (line: string) => void): Promise<DeltaImages> {
  const folder = join(keptFolder(), `delta-${await codenameOfThisMachine()}`);
  const images = Object.fromEntries(['base', ...pairs].map((name) => [name, join(folder, `${name}.ext4`)]));
  await mkdir(folder, { recursive: true });
  for (const [name, path] of Object.entries(images)) {
    if (existsSync(path)) continue;
    tell(`making the image ${name} of Debian`);
    const root = join(folder, 'root');
    await rm(root, { recursive: true, force: true });
    await makeRoot(root, name);
    if (name === 'application') await changeApplication(root);
    await makeImage(root, path);
    await rm(root, { recursive: true });
  }
  return images as DeltaImages;
}

async function makeRoot(root: string, name: string): Promise<void> {
  const codename = await codenameOfThisMachine();
  const sources = (await packageSources(codename, codename)).split('\n');
  const released = sources.filter((line) => line.includes(` ${codename} `)).join('\n');
  const security = sources.filter((line) => line.includes(`${codename}-security`)).join('\n');
  const only = [
    `printf '%s\\n' '${security}' >"$1"/etc/apt/sources.list.d/security.list`,
    'APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq update',
    'APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -y install --only-upgrade libssl3 openssl',
    'rm -r "$1"/etc/apt/sources.list.d/security.list "$1"/var/lib/apt/lists/*',
  ].join(' && ');
  const options = [
    '--variant=minbase',
    `--include=${packages}`,
    ...leftOut.map((what) => `--dpkgopt=path-exclude=/usr/share/${what}/*`),
    ...(name === 'security' ? [`--customize-hook=${only}`] : []),
  ];
  const command = ['env', 'SOURCE_DATE_EPOCH=1700000000', 'mmdebstrap', ...options, codename, root, '-'] as const;
  await tool([...command], { timeoutMs: LONG_MS, input: name === 'point' ? sources.join('\n') : released });
}

/** As systemd/images/slot makes one. */
async function makeImage(root: string, path: string): Promise<void> {
  const none = '00000000-0000-0000-0000-000000000000';
  const features = ['-O', '^has_journal,^resize_inode', '-E', `hash_seed=${none}`, '-U', none];
  const made = `${path}.new`;
  await rm(made, { force: true });
  await tool(['mkfs.ext4', '-q', '-F', '-b', '4096', '-m', '0', ...features, '-d', root, made, `${IMAGE_MIB}M`], {
    timeoutMs: LONG_MS,
  });
  await rename(made, path);
}

/**
 * Changes 2 % of each file's bytes in runs of 32, and adds 16 bytes, so that the following data moves. Deterministic,
 * by digests.
 */
async function changeApplication(root: string): Promise<void> {
  const entries = await readdir(join(root, 'usr'), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  for (const path of files.toSorted().filter((each) => drawn(each) < CHANGED_SHARE)) {
    const bytes = await readFile(path);
    const runs = Math.ceil(bytes.byteLength / 1600);
    for (let run = 0; run < runs; run += 1) {
      const at = Math.floor(drawn(`${path} ${run}`) * bytes.byteLength);
      noise(`${path} ${run}`, Math.min(32, bytes.byteLength - at)).copy(bytes, at);
    }
    const at = Math.floor(drawn(`${path} more`) * bytes.byteLength);
    await writeFile(path, Buffer.concat([bytes.subarray(0, at), noise(path, 16), bytes.subarray(at)]));
  }
  await mkdir(join(root, 'opt'), { recursive: true });
  await writeFile(join(root, 'opt/application'), noise('application', NEW_PROGRAM_BYTES));
}

/** 0 to 1. */
function drawn(of: string): number {
  return createHash('sha256').update(of).digest().readUInt32LE() / 2 ** 32;
}

function noise(of: string, sizeBytes: number): Buffer {
  return createHash('shake256', { outputLength: sizeBytes }).update(of).digest();
}
