import { execFile } from 'node:child_process';
import { link, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { ImageFile } from '../firmware-files.ts';
import { shell } from '../measure.ts';
import type { Command } from '../measure.ts';

const run = promisify(execFile);

export interface RaucFiles {
  /** The signed bundle, as RAUC made it. */
  readonly bundle: string;
  readonly folder: string;
}

const BUS = (
  address: string,
): string => `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>${address}</listen><policy context="default"><allow own="*"/><allow
 send_destination="*"/><allow receive_sender="*"/><allow user="*"/></policy></busconfig>
`;

const BOOTLOADER = `#!/bin/sh
case $1 in get-primary | get-current) echo A ;; get-state) echo good ;; esac
`;

/**
 * A gateway of RAUC in a directory: its slot B is the device, its bootloader and D-Bus are its own. The bundle has the
 * format `plain`, which is read in place: `verity` requires dm-verity, and streaming a bundle requires nbd, in the
 * kernel.
 */
export async function writeRauc(
  image: ImageFile,
  { workFolder, device }: { readonly workFolder: string; readonly device: string },
): Promise<RaucFiles> {
  const folder = join(workFolder, 'rauc');
  const at = (name: string): string => join(folder, name);
  for (const part of ['content', 'mnt']) await mkdir(at(part), { recursive: true });
  const making = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '3650'];
  const files = ['-keyout', at('key.pem'), '-out', at('cert.pem'), '-subj', '/CN=bench'];
  await run('openssl', ['req', '-x509', ...making, ...files]);
  await link(image.path, at('content/image.img'));
  await writeFile(
    at('content/manifest.raucm'),
    '[update]\ncompatible=bench\nversion=1\n[bundle]\nformat=plain\n[image.rootfs]\nfilename=image.img\n',
  );
  const bundle = at('bundle');
  // what looks random is not worth compressing; RAUC would try
  await run('rauc', [
    `--cert=${at('cert.pem')}`,
    `--key=${at('key.pem')}`,
    '--mksquashfs-args=-noD -noF',
    'bundle',
    at('content'),
    bundle,
  ]);
  await writeFile(at('bootloader'), BOOTLOADER, { mode: 0o755 });
  await writeFile(at('slot-a'), '');
  await writeFile(at('bus.conf'), BUS(`unix:path=${at('bus')}`));
  await writeFile(
    at('system.conf'),
    `[system]\ncompatible=bench\nbootloader=custom\nstatusfile=${at('status')}\nmountprefix=${at('mnt')}
[keyring]\npath=${at('cert.pem')}\n[handlers]\nbootloader-custom-backend=${at('bootloader')}
[slot.rootfs.0]\ndevice=${at('slot-a')}\ntype=raw\nbootname=A
[slot.rootfs.1]\ndevice=${device}\ntype=raw\nbootname=B\n`,
  );
  return { bundle, folder };
}

/** The bundle is fetched first, as who cannot stream has to. Its service is started and ended with it, and counted. */
export function rauc(url: string, { folder }: RaucFiles): Command {
  return shell(
    [
      `cd '${folder}'`,
      `curl --silent --fail --output fetched.raucb '${url}'`,
      'rm -f bus status',
      'dbus-daemon --config-file=bus.conf --nofork 2>/dev/null & bus=$!',
      "trap 'kill $service $bus; wait $service $bus || true; rm -f fetched.raucb' EXIT",
      'for try in $(seq 500); do [ -S bus ] && break; sleep 0.01; done',
      `export DBUS_SYSTEM_BUS_ADDRESS=unix:path='${folder}/bus'`,
      'rauc -c system.conf --override-boot-slot=A service >service.log 2>&1 & service=$!',
      'for try in $(seq 200); do rauc -c system.conf status >/dev/null 2>&1 && break; sleep 0.02; done',
      'rauc -c system.conf install fetched.raucb >install.log 2>&1',
    ].join('\n'),
  );
}
