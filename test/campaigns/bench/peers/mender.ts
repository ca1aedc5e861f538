import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { KeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import type { ImageFile } from '../firmware-files.ts';
import { shell } from '../measure.ts';
import type { Command } from '../measure.ts';

const run = promisify(execFile);

/** Output of `fw_printenv`: the first pair of partitions runs, and there is no update. */
const ENVIRONMENT = [
  'mender_boot_part=1',
  'mender_boot_part_hex=1',
  'upgrade_available=0',
  'bootcount=0',
  'mender_check_saveenv_canary=1',
  'mender_saveenv_canary=1',
].join('\\n');

export interface MenderFiles {
  /** The signed artifact, made by mender-artifact. */
  readonly artifact: string;
  readonly folder: string;
}

/** A gateway of Mender's in a folder: its other partition is the device, its boot environment is pretended. */
export async function writeMender(
  image: ImageFile,
  { workFolder, device, keys }: { readonly workFolder: string; readonly device: string; readonly keys: KeyPair },
): Promise<MenderFiles> {
  const folder = join(workFolder, 'mender');
  await mkdir(join(folder, 'bin'), { recursive: true });
  const at = (name: string): string => join(folder, name);
  await writeFile(at('key.pem'), keys.privateKey.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 });
  await writeFile(at('public.pem'), keys.publicPem);
  await writeFile(at('device_type'), 'device_type=bench\n');
  await writeFile(at('bin/fw_printenv'), `#!/bin/sh\nprintf '${ENVIRONMENT}\\n'\n`, { mode: 0o755 });
  await writeFile(at('bin/fw_setenv'), '#!/bin/sh\nexec cat >/dev/null\n', { mode: 0o755 });
  const { stdout: root } = await run('findmnt', ['--noheadings', '--output', 'SOURCE', '/']);
  const settings = {
    RootfsPartA: root.trim(),
    RootfsPartB: device,
    ArtifactVerifyKey: at('public.pem'),
    DeviceTypeFile: at('device_type'),
  };
  await writeFile(at('mender.conf'), JSON.stringify(settings));
  const artifact = at('artifact');
  const what = ['--device-type', 'bench', '--artifact-name', 'v1', '--file', image.path];
  const how = ['--compression', 'none', '--key', at('key.pem'), '--output-path', artifact];
  await run('mender-artifact', ['write', 'rootfs-image', ...what, ...how]);
  return { artifact, folder };
}

/** Replaces the installed /etc/mender in a mount namespace of its own. Keeps its state in a new directory. */
export function mender(url: string, { folder }: MenderFiles): Command {
  const install = `mender --no-syslog --log-level warning --config '${folder}/mender.conf' --data "$data" install '${url}'`;
  const inside = [
    'mount -t tmpfs tmpfs /etc/mender',
    'echo artifact_name=v0 > /etc/mender/artifact_info',
    `data=$(mktemp --directory '${folder}/data-XXXXXX')`,
    `PATH='${folder}/bin':$PATH exec ${install}`,
  ];
  const { argv } = shell(inside.join(' && '));
  return { argv: ['unshare', '--mount', ...argv] };
}
