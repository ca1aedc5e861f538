import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import process from 'node:process';

import { debianRootFileSystem } from '../../fakes/machine/booting/debian.ts';
import { imageScripts } from '../../fakes/machine/booting/disk-images.ts';
import { qemuGateway } from '../../fakes/machine/booting/qemu-gateway.ts';
import { selfCheckFiles, selfCheckPassed } from '../../fakes/machine/booting/self-check.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { runTool, WrongUse } from '../../tool.ts';
import { partitionsOf } from '../boots/record.ts';

const help = `npm run verified-boot [-- --console]

Builds a gateway as docs/verified-boot.md says, and starts it in an emulated machine with UEFI's Secure Boot on: as it is,
after one block of the slot was changed, and after its signed program was changed. For root (apt install mmdebstrap gdisk
dosfstools mtools e2fsprogs ovmf qemu-system-x86 squashfs-tools cryptsetup-bin sbsigntool systemd-boot-efi binutils cpio).
The key is the one whose certificate Debian's ovmf package has enrolled for tests.

  --console  show the console`;

const project = resolve(import.meta.dirname, '../../..');
/** Debian's variables of UEFI with a certificate for tests, and its key, whose password is public. */
const ovmf = { code: '/usr/share/OVMF/OVMF_CODE_4M.secboot.fd', variables: '/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd' };
const certificate = '/usr/share/ovmf/PkKek-1-snakeoil.pem';
const encryptedKey = '/usr/share/ovmf/PkKek-1-snakeoil.key';
const secureMachine = '-M q35,smm=on -m 512 -global driver=cfi.pflash01,property=secure,value=on'.split(' ');
const DEADLINE_MS = 15 * 60_000;
const SECTOR_BYTES = 512;
const MIB = 1024 * 1024;

const debian = {
  packages:
    'systemd-sysv udev kmod libstdc++6 util-linux e2fsprogs passwd dmsetup mount dosfstools linux-image-cloud-amd64'.split(
      ' ',
    ),
};

const config = `
[service]
url = "http://10.0.2.100"
insecure = true
[device]
device_type = "verified"
[trust]
keys = ["/etc/thing-agent/trust/release.pem"]
[targets.kernel]
kind = "slots"
slots = { A = "/dev/disk/by-partlabel/kernel-a", B = "/dev/disk/by-partlabel/kernel-b" }
[targets.gateway]
kind = "slots"
slots = { A = "/dev/disk/by-partlabel/rootfs-a", B = "/dev/disk/by-partlabel/rootfs-b" }
bootloader = { kind = "custom", handler = "/usr/lib/gateway/systemd-boot-handler" }
`;

const options = { console: { type: 'boolean', default: false } } as const;

await runTool(help, options, async ({ console: isShown }) => {
  if (process.getuid?.() !== 0) throw new WrongUse('it is for root: it makes a root file system');
  const lacks = [ovmf.code, certificate, '/usr/lib/systemd/boot/efi/linuxx64.efi.stub'].filter((it) => !existsSync(it));
  if (lacks.length > 0) throw new WrongUse(`${lacks.join(', ')}: not there; --help says what is needed`);
  const folder = await mkdtemp(join(tmpdir(), 'verified-boot-'));
  try {
    const disk = await makeDisk(folder);
    return await startAll(folder, disk, isShown ? (line) => console.log(line) : undefined);
  } finally {
    await rm(folder, { recursive: true });
  }
});

async function makeDisk(folder: string): Promise<string> {
  const root = join(folder, 'root');
  const at = (name: string): string => join(folder, name);
  await mkdir(root);
  await tool(['tar', '-xf', await debianRootFileSystem(debian), '-C', root], { timeoutMs: 300_000 });
  await tool(['npm', 'run', '--silent', '--prefix', project, 'build', '--', '--out', at('tree')], {
    timeoutMs: 300_000,
  });
  await tool([join(at('tree'), 'systemd/install'), '--root', root, '--enable']);
  await mkdir(join(root, 'etc/thing-agent/trust'), { recursive: true });
  await writeFile(join(root, 'etc/thing-agent/config.toml'), config);
  for (const [path, text] of Object.entries({ ...selfCheckFiles, '/etc/hosts': '127.0.0.1 localhost\n' })) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text, { mode: text.startsWith('#!') ? 0o755 : 0o644 });
  }
  await tool(['openssl', 'ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', at('release-private.pem')]);
  const publicKey = join(root, 'etc/thing-agent/trust/release.pem');
  await tool(['openssl', 'ec', '-in', at('release-private.pem'), '-pubout', '-out', publicKey]);
  await tool(['openssl', 'rsa', '-in', encryptedKey, '-passin', 'pass:snakeoil', '-out', at('db.key')]);
  const signed = ['--key', at('db.key'), '--cert', certificate];
  const loader = '/usr/lib/systemd/boot/efi/systemd-bootx64.efi';
  await tool(['sbsign', ...signed, '--output', at('loader.efi'), loader]);
  const args = 'console=ttyS0 systemd.volatile=state systemd.journald.forward_to_console=1 systemd.show_status=no';
  const images = ['--out', at('rootfs.img'), '--kernel-out', at('kernel.ext4')];
  const slot = ['--root', root, '--bootloader', 'systemd-boot', ...signed, '--args', args, ...images];
  await tool([join(imageScripts, 'slot'), ...slot], { timeoutMs: 900_000 });
  const parts = ['--slot', at('rootfs.img'), '--kernel', at('kernel.ext4'), '--loader', at('loader.efi')];
  await tool([join(imageScripts, 'systemd-boot'), ...parts, '--out', at('gateway.img')], { timeoutMs: 300_000 });
  return at('gateway.img');
}

async function startAll(folder: string, disk: string, onLine: ((line: string) => void) | undefined): Promise<number> {
  const changed = join(folder, 'changed.img');
  const copy = async (): Promise<void> => void (await tool(['cp', '--sparse=always', disk, changed]));
  await copy();
  await shows('as it is', { folder, disk: changed, onLine }, /rootfs-a is verified/, /agent\[\d+\]: /, selfCheckPassed);
  await copy();
  await overwrite(changed, ((await partitionsOf(changed)).find(({ name }) => name === 'rootfs-a')?.sector ?? 0) * 512);
  await shows('with a changed block', { folder, disk: changed, onLine }, /verity: .* data block 0 is corrupted/);
  await copy();
  const program = join(folder, 'gateway.efi');
  const esp = `${changed}@@2M`;
  await tool(['mcopy', '-i', esp, '::/thing/a/gateway.efi', program]);
  await overwrite(program, 8 * MIB);
  await tool(['mcopy', '-o', '-i', esp, program, '::/thing/a/gateway.efi']);
  await shows('with a changed program', { folder, disk: changed, onLine }, /Error loading .*: Access Denied/);
  return 0;
}

/** Inverts the first bytes of a sector. */
async function overwrite(file: string, offset: number): Promise<void> {
  await using opened = await open(file, 'r+');
  const { buffer } = await opened.read(Buffer.alloc(SECTOR_BYTES), 0, SECTOR_BYTES, offset);
  await opened.write(
    buffer.map((byte) => 255 - byte),
    0,
    SECTOR_BYTES,
    offset,
  );
}

interface Start {
  readonly folder: string;
  readonly disk: string;
  readonly onLine: ((line: string) => void) | undefined;
}

/** Starts the machine, and waits for these lines on its console. */
async function shows(what: string, { folder, disk, onLine }: Start, ...lines: readonly RegExp[]): Promise<void> {
  const variables = join(folder, 'variables.fd');
  await copyFile(ovmf.variables, variables);
  const efi = { code: ovmf.code, variables };
  await using gateway = qemuGateway({ disk, efi, servicePort: 1, more: secureMachine, onLine });
  const startMs = performance.now();
  gateway.powerOn();
  for (const line of lines) {
    const seen = await gateway.console.until(line, DEADLINE_MS);
    console.log(`${what}, after ${Math.round((performance.now() - startMs) / 1000)} s: ${seen.trim()}`);
  }
}
