import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import process from 'node:process';

import { debianRootFileSystem } from '../../fakes/machine/booting/debian.ts';
import { imageScripts } from '../../fakes/machine/booting/disk-images.ts';
import type { GatewayMachine } from '../../fakes/machine/booting/gateway-machine.ts';
import { qemuGateway } from '../../fakes/machine/booting/qemu-gateway.ts';
import { selfCheckFiles, selfCheckPassed } from '../../fakes/machine/booting/self-check.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { fileContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import { runTool, WrongUse } from '../../tool.ts';
import { partitionsOf } from '../boots/record.ts';
import { DNS_PORT, serveNamesAndTime, SERVICE_NAME } from './network.ts';

const help = `npm run verified-boot [-- --console]

Builds a gateway as docs/verified-boot.md says, with a read-only root file system, resolved, timesyncd and a watchdog, and
starts it in an emulated machine with UEFI's Secure Boot on: after one block of the slot was changed, after its signed program
was changed, and as it is. Then it takes an update, with a power loss during staging, in the trial and after the commit, and
checks itself after each start. For root (apt install mmdebstrap gdisk dosfstools mtools e2fsprogs ovmf qemu-system-x86 socat
squashfs-tools cryptsetup-bin sbsigntool systemd-boot-efi binutils cpio, and mender-artifact). The key is the one whose
certificate Debian's ovmf package has enrolled for tests. The UDP ports 123 and ${DNS_PORT} of the loopback address must be free.

  --console  show the console`;

const project = resolve(import.meta.dirname, '../../..');
/** Debian's variables of UEFI with a certificate for tests, and its key, whose password is public. */
const ovmf = { code: '/usr/share/OVMF/OVMF_CODE_4M.secboot.fd', variables: '/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd' };
const certificate = '/usr/share/ovmf/PkKek-1-snakeoil.pem';
const encryptedKey = '/usr/share/ovmf/PkKek-1-snakeoil.key';
const secureMachine = '-M q35,smm=on -m 512 -global driver=cfi.pflash01,property=secure,value=on'.split(' ');
/** A second network, from which the guest reaches the loopback address of this machine as 10.0.3.2. */
const outerNetwork = '-netdev user,id=outer,net=10.0.3.0/24 -device virtio-net-pci,netdev=outer,romfile='.split(' ');
const DEADLINE_MS = 15 * 60_000;
const SECTOR_BYTES = 512;
const MIB = 1024 * 1024;

const debian = {
  packages:
    'systemd-sysv systemd-resolved systemd-timesyncd dbus udev kmod libstdc++6 util-linux e2fsprogs passwd dmsetup mount dosfstools linux-image-cloud-amd64'.split(
      ' ',
    ),
};

const config = `
[service]
url = "http://${SERVICE_NAME}"
insecure = true
[device]
device_type = "verified"
[update]
schedule = "*/20 * * * * *"
splay = "0s"
[update.health]
deadline = "15m"
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

/** The check of self-check.sh waits until timesyncd has set the clock, and systemd has opened the watchdog. */
const files: Readonly<Record<string, string>> = {
  ...selfCheckFiles,
  '/etc/hosts': '127.0.0.1 localhost\n',
  '/etc/systemd/network/all.network': '[Match]\nName=e*\n[Network]\nDHCP=ipv4\n[DHCPv4]\nUseDNS=no\nUseNTP=no\n',
  '/etc/systemd/resolved.conf.d/here.conf': `[Resolve]\nDNS=10.0.3.2:${DNS_PORT}\nDomains=~.\n`,
  '/etc/systemd/timesyncd.conf.d/here.conf': '[Time]\nNTP=10.0.3.2\n',
  '/etc/modules-load.d/watchdog.conf': 'softdog\n',
  '/etc/systemd/system.conf.d/watchdog.conf': '[Manager]\nRuntimeWatchdogSec=14s\n',
  '/etc/systemd/system/self-check.service.d/whole.conf': `[Service]\nEnvironment=NAME=${SERVICE_NAME}\nExecStart=\nExecStart=/usr/lib/app/whole-check\n`,
  '/usr/lib/app/whole-check': `#!/bin/sh
patience=600
until [ "$(timedatectl show -p NTPSynchronized --value)" = yes ] && [ "$(cat /sys/class/watchdog/watchdog0/state)" = active ]; do
  patience=$((patience - 1))
  if [ $patience = 0 ]; then echo '*** no time, or no watchdog'; exit 1; fi
  sleep 1
done
if touch /etc/written 2>/dev/null; then echo '*** the root file system can be written'; exit 1; fi
if ! grep -q ^CRYPT-VERITY- /sys/block/dm-0/dm/uuid || [ -n "$(ls -A /var/cache/thing-agent 2>/dev/null)" ]; then
  echo '*** compiled code is reused under verified boot'
  exit 1
fi
echo "*** $(sed -n s/^IMAGE_VERSION=//p /etc/os-release) has the time and a watchdog, and its root file system is read-only"
exec /usr/lib/app/self-check
`,
};

const options = { console: { type: 'boolean', default: false } } as const;

await runTool(help, options, async ({ console: isShown }) => {
  if (process.getuid?.() !== 0) throw new WrongUse('it is for root: it makes a root file system');
  const lacks = [ovmf.code, certificate, '/usr/lib/systemd/boot/efi/linuxx64.efi.stub'].filter((it) => !existsSync(it));
  if (lacks.length > 0) throw new WrongUse(`${lacks.join(', ')}: not there; --help says what is needed`);
  const folder = await mkdtemp(join(tmpdir(), 'verified-boot-'));
  try {
    const parts = await makeParts(folder);
    const onLine = isShown ? (line: string): void => console.log(line) : undefined;
    await startChanged({ folder, disk: parts.disk, onLine });
    await updateWithPowerLosses({ folder, disk: parts.disk, onLine }, parts.release);
    return 0;
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** Makes the disk with version 1, and the signed release of version 2. */
async function makeParts(folder: string): Promise<{ readonly disk: string; readonly release: string }> {
  const root = join(folder, 'root');
  const at = (name: string): string => join(folder, name);
  await mkdir(root);
  await tool(['tar', '-xf', await debianRootFileSystem(debian), '-C', root], { timeoutMs: 900_000 });
  await tool(['npm', 'run', '--silent', '--prefix', project, 'build', '--', '--out', at('tree')], {
    timeoutMs: 300_000,
  });
  await tool([join(at('tree'), 'systemd/install'), '--root', root, '--enable']);
  await tool(['systemctl', '--root', root, 'enable', 'systemd-networkd', 'systemd-resolved', 'systemd-timesyncd']);
  await mkdir(join(root, 'etc/thing-agent/trust'), { recursive: true });
  await writeFile(join(root, 'etc/thing-agent/config.toml'), config);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text, { mode: text.startsWith('#!') ? 0o755 : 0o644 });
  }
  await tool(['openssl', 'ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', at('release-private.pem')]);
  const publicKey = join(root, 'etc/thing-agent/trust/release.pem');
  await tool(['openssl', 'ec', '-in', at('release-private.pem'), '-pubout', '-out', publicKey]);
  await tool(['openssl', 'rsa', '-in', encryptedKey, '-passin', 'pass:snakeoil', '-out', at('db.key')]);
  const loader = '/usr/lib/systemd/boot/efi/systemd-bootx64.efi';
  await tool(['sbsign', '--key', at('db.key'), '--cert', certificate, '--output', at('loader.efi'), loader]);
  const first = await makeSlot(folder, 'v1');
  const parts = ['--slot', first.slot, '--kernel', first.kernel, '--loader', at('loader.efi')];
  await tool([join(imageScripts, 'systemd-boot'), ...parts, '--out', at('gateway.img')], { timeoutMs: 300_000 });
  const second = await makeSlot(folder, 'v2');
  await writeFile(
    at('targets.json'),
    JSON.stringify({ targets: { 'rootfs.img': 'gateway', 'kernel.ext4': 'kernel' } }),
  );
  const names = ['--artifact-name', 'v2', '--device-type', 'verified', '--compression', 'none'];
  const contents = ['--type', 'thing-firmware', '--file', second.slot, '--file', second.kernel];
  const signed = ['--key', at('release-private.pem'), '--meta-data', at('targets.json')];
  await tool(
    ['mender-artifact', 'write', 'module-image', ...names, ...contents, ...signed, '--output-path', at('v2.mender')],
    { timeoutMs: 300_000 },
  );
  return { disk: at('gateway.img'), release: at('v2.mender') };
}

async function makeSlot(folder: string, version: string): Promise<{ readonly slot: string; readonly kernel: string }> {
  const root = join(folder, 'root');
  const out = join(folder, version);
  await mkdir(out);
  await tool([
    'sh',
    '-c',
    `sed -i /^IMAGE_VERSION/d "$1" && echo IMAGE_VERSION=${version} >>"$1"`,
    'sh',
    join(root, 'usr/lib/os-release'),
  ]);
  const args = 'console=ttyS0 systemd.volatile=state systemd.journald.forward_to_console=1 systemd.show_status=no';
  const signed = ['--key', join(folder, 'db.key'), '--cert', certificate, '--args', args];
  const [slot, kernel] = [join(out, 'rootfs.img'), join(out, 'kernel.ext4')];
  const outputs = ['--out', slot, '--kernel-out', kernel];
  await tool([join(imageScripts, 'slot'), '--root', root, '--bootloader', 'systemd-boot', ...signed, ...outputs], {
    timeoutMs: 900_000,
  });
  return { slot, kernel };
}

async function startChanged({ folder, disk, onLine }: Start): Promise<void> {
  const changed = join(folder, 'changed.img');
  const copy = async (): Promise<void> => void (await tool(['cp', '--sparse=always', disk, changed]));
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
  await rm(changed);
}

/** One update, with the power lost during staging, in the trial and after the commit. */
async function updateWithPowerLosses(start: Start, release: string): Promise<void> {
  await using _ = await serveNamesAndTime();
  await using service = await startStandIn({ versions: [{ id: 'v1' }] });
  service.world.addVersion({ id: 'v2', firmware: fileContent(release) });
  service.world.targetVersionId = 'v1';
  const { seen, gateway } = await openMachine(start, Number(new URL(service.url).port));
  await using _gateway = gateway;
  const healthy = [/ has the time and a watchdog/, selfCheckPassed];
  await seen('the first start', /rootfs-a is verified/, ...healthy);
  service.world.targetVersionId = 'v2';
  await seen('the update', /phase=staging/);
  await cutPower(gateway);
  await seen('after a power loss during staging', /rootfs-a is verified/, ...healthy, /rootfs-b is verified/);
  await cutPower(gateway);
  await seen('after a power loss in the trial', /rootfs-a is verified/, /rootfs-b is verified/, /phase=switching/);
  await cutPower(gateway);
  const settled = [/No interrupted update/, /outcome=up-to-date/]; // the switch is sent with the first check
  await seen('after a power loss after the commit', /rootfs-b is verified/, ...healthy, ...settled);
  const current = service.world.things[0]?.currentVersionId;
  if (current !== 'v2') throw new Error(`the service's record is ${current}, not v2`);
  console.log('the service has recorded v2');
}

async function cutPower(gateway: GatewayMachine): Promise<void> {
  await gateway.powerOff();
  gateway.powerOn();
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

type Seen = (what: string, ...lines: readonly RegExp[]) => Promise<void>;

/** Starts the machine, with UEFI's variables of a new one. `seen` waits for lines on its console, one after the other. */
async function openMachine(
  { folder, disk, onLine }: Start,
  servicePort: number,
): Promise<{ gateway: GatewayMachine; seen: Seen }> {
  const variables = join(folder, 'variables.fd');
  await copyFile(ovmf.variables, variables);
  const efi = { code: ovmf.code, variables };
  const gateway = qemuGateway({ disk, efi, servicePort, more: [...secureMachine, ...outerNetwork], onLine });
  gateway.powerOn();
  const seen: Seen = async (what, ...lines) => {
    const startMs = performance.now();
    for (const line of lines) {
      const found = await gateway.console.until(line, DEADLINE_MS);
      console.log(`${what}, after ${Math.round((performance.now() - startMs) / 1000)} s: ${found.trim()}`);
    }
  };
  return { gateway, seen };
}

/** Starts the machine, and waits for this line on its console. */
async function shows(what: string, start: Start, line: RegExp): Promise<void> {
  const { gateway, seen } = await openMachine(start, 1);
  await using _ = gateway;
  await seen(what, line);
}
