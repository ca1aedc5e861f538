import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';

import { ConfigError } from '../../../src/config/errors.ts';
import { backUpConfig } from '../../../src/setup/config-backups.ts';
import { detectGateway } from '../../../src/setup/detect-gateway.ts';
import { beginSetup } from '../../../src/setup/setup.ts';
import type { BeginDeps, Setup } from '../../../src/setup/setup.ts';
import { agentProgram } from '../../fakes/machine/built-agent.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';

const never = new AbortController().signal;
let directory: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
});

async function place(file: string, text = ''): Promise<string> {
  const path = join(directory, file);
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, text);
  return path;
}

test('detection finds slots, bootloader, serial ports, device type and keys of a root file system', async () => {
  const files = ['dev/disk/by-partlabel/rootfs-a', 'boot/grub/grubenv', 'dev/ttyACM0'];
  const ports = ['ttyACM0', 'ttyAMA1', 'ttyS0'].map((tty) => `sys/class/tty/${tty}/device/uevent`);
  for (const file of ports) await place(file);
  await place('sys/class/tty/console/active', 'ttyS0\n');
  await mkdir(join(directory, 'dev/serial/by-id'), { recursive: true });
  await symlink('../../ttyACM0', join(directory, 'dev/serial/by-id/usb-meter'));
  for (const file of [...files, 'etc/thing-agent/trust/release.pem', 'etc/thing-agent/trust/README']) await place(file);
  await place('etc/mender/device_type', 'device_type=my-board\n');
  await place('usr/lib/os-release', 'ID=debian\nIMAGE_VERSION=1.4.0\n');
  for (const name of ['thing-agent.list', 'libc6:arm64.list', 'libc6:arm64.md5sums'])
    await place(`var/lib/dpkg/info/${name}`);
  expect(await detectGateway(new AbortController().signal, directory)).toMatchObject({
    partitions: ['rootfs-a'],
    bootloaders: [{ kind: 'grub', environment: '/boot/grub/grubenv' }],
    serialPorts: ['/dev/serial/by-id/usb-meter', '/dev/ttyAMA1'],
    deviceType: 'my-board',
    releaseKeys: ['/etc/thing-agent/trust/release.pem'],
    imageVersion: '1.4.0',
    packages: new Set(['libc6', 'thing-agent']),
  });
});

test('earlier configurations are kept: the first as it is, and the last eight', async () => {
  const path = join(directory, 'config.toml');
  for (let round = 1; round <= 11; round += 1) await backUpConfig(path, `# ${round}`);
  const numbers = [4, 5, 6, 7, 8, 9, 10, 11].map((number) => `config.toml.before.${number}`);
  expect((await readdir(directory)).toSorted()).toEqual(['config.toml.before', ...numbers].toSorted());
  const text = async (name: string) => readFile(join(directory, name), 'utf8');
  expect([await text('config.toml.before'), await text('config.toml.before.11')]).toEqual(['# 1', '# 11']);
});

test('the state directory is checked before any question, against the given slots', async () => {
  const slots =
    '[targets.gateway]\nkind = "slots"\nslots = { A = "/dev/a", B = "/dev/b" }\nbootloader = { kind = "uboot" }\n';
  const from = await place('part.toml', `[paths]\nstate = "/srv/state"\n${slots}`);
  const begin = async (checkState: BeginDeps['checkState']): Promise<Setup> =>
    beginSetup({ path: join(directory, 'config.toml'), check: async () => {}, checkState }, from, never);
  const setup = await begin(async (...place) => [JSON.stringify(place)]);
  expect(setup.notes).toEqual(['["/srv/state",[{"A":"/dev/a","B":"/dev/b"}]]']);
  const wrong = new ConfigError('config-invalid', from, []);
  await expect(begin(async () => Promise.reject(wrong))).rejects.toBe(wrong);
});

// Regression on an image with a read-only /etc, after all questions: state-unavailable, "check that the state partition is mounted".
test('rejects a read-only file system before any question, and names a place to write', async () => {
  const etc = join(directory, 'etc');
  await mkdir(etc);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'none', etc]);
  try {
    const path = join(etc, 'thing-agent/config.toml');
    const begun = beginSetup({ path, check: async () => {}, checkState: async () => [] }, undefined, never);
    await expect(begun).rejects.toMatchObject({
      code: 'config-unwritable',
      message: `${path}: its file system is read-only`,
      advice: expect.stringContaining('agent --config /run/config.toml setup') as unknown,
    });
  } finally {
    execFileSync('umount', [etc]);
  }
});

/** Two paths of one slot: each answer is valid alone. */
async function linkToSlotA(): Promise<string> {
  const link = join(directory, 'boot/link-to-slot-a');
  await symlink(join(directory, 'slot-a'), link);
  return link;
}

describe('agent setup', () => {
  let part: string;
  let answers: readonly string[];

  beforeEach(async () => {
    await mkdir(join(directory, 'boot'));
    await place('dpkg/bash.list');
    const handler = join(directory, 'boot/handler');
    await copyFile(join(import.meta.dirname, '../../fakes/machine/boot-handler'), handler);
    execFileSync('chmod', ['755', handler]);
    execFileSync(handler, ['boot']);
    const slots = ['slot-a', 'slot-b'].map((name) => join(directory, name));
    for (const slot of slots) {
      await writeFile(slot, '');
      await truncate(slot, 8 * 1024 * 1024);
    }
    const key = join(directory, 'private.pem');
    const pem = join(directory, 'release.pem');
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', key]);
    execFileSync('openssl', ['pkey', '-in', key, '-pubout', '-out', pem]);
    part = await place(
      'part.toml',
      `[device]
serial_number = "GW-1"
factory_version = "v0"
[paths]
state = "${directory}/state"
run = "${directory}/run"
[system]
reboot_command = ["true"]
boot_id_file = "${directory}/boot/boot-id"
`,
    );
    answers = ['http://127.0.0.1:1', 'my-board', pem, ...slots, 'custom', handler];
  });

  /** `typed` is what a pipe holds. Only the package bash is installed, even if this machine has the agent's. */
  async function setUp(typed: readonly string[], options: readonly string[]) {
    const config = join(directory, 'config.toml');
    const script = 'mount --bind "$1" /var/lib/dpkg/info && shift && exec "$@"';
    const given = [join(directory, 'dpkg'), agentProgram(), 'setup', '--config', config, ...options];
    const program = spawn('unshare', ['--mount', 'sh', '-c', script, 'sh', ...given]);
    let out = '';
    for (const stream of [program.stdout, program.stderr])
      stream.on('data', (text: Buffer) => (out += text.toString()));
    program.stdin.end(typed.map((line) => `${line}\n`).join(''));
    await once(program, 'close');
    return { exitCode: program.exitCode, out: out.replaceAll(/\s+/g, ' '), names: await readdir(directory) };
  }

  test('of boards alone needs no slots, and doctor misses none', async () => {
    const [url = '', deviceType = '', pem = ''] = answers;
    const board = '[targets.meter]\nkind = "mcu"\nport = "/dev/null"\nprotocol = "stk500v1"\n';
    const said = `[service]\nurl = "${url}"\n[trust]\nkeys = ["${pem}"]\n`;
    const file = await readFile(part, 'utf8');
    await writeFile(part, `${file.replace('[device]', `[device]\ndevice_type = "${deviceType}"`)}${said}${board}`);
    const { exitCode, out } = await setUp([], ['--yes', '--from', part]);
    expect(exitCode).toBe(0);
    expect(out).toContain('ok boot environment not needed: no slots are configured');
    expect(out).not.toContain('staging slot');
  });

  test('asks, asks again where the answer has no form, checks, writes, and does what doctor does', async () => {
    const { exitCode, out } = await setUp(['htp://x', ...answers, 'y'], ['--from', part]);
    expect(out).toContain('found "htp://x"');
    expect(out).toContain('ok boot environment slot A runs');
    expect(exitCode).toBe(0);
    expect(await readFile(join(directory, 'config.toml'), 'utf8')).toContain('device_type = "my-board"');
  });

  // Regression: a file that does not exist was taken at its question, and all answers were lost after the last one.
  test('rejects an unusable file immediately, and a blank answer', async () => {
    const [url = '', type = '', ...files] = answers;
    const { exitCode, out } = await setUp(
      [url, 'my board', type, '/nowhere/release.pem', ...files, 'y'],
      ['--from', part],
    );
    expect(out).toContain('"my board" contains a space');
    expect(out).toContain('trust.keys: /nowhere/release.pem does not exist');
    expect(exitCode).toBe(0);
  });

  // Regression: setup and its diagnostics accepted the key, and the daemon, whose unit hides /root, could not read it.
  test('rejects a key in a home directory, which the daemon does not see', async () => {
    const [url = '', type = '', pem = '', ...others] = answers;
    const home = await mkdtemp(join(homedir(), '.setup-'));
    onTestFinished(async () => rm(home, { recursive: true }));
    const hidden = join(home, 'release.pem');
    await copyFile(pem, hidden);
    const { exitCode, out } = await setUp([url, type, hidden, pem, ...others, 'y'], ['--from', part]);
    expect(out).toContain(`trust.keys: the unit thing-agent does not see ${hidden}: move it, or`);
    expect(exitCode).toBe(0);
  });

  // Regression: an empty answer was requested again without a message, and none was rejected for slot B.
  test('reports that an answer is required, and that none is an answer for either slot', async () => {
    const [url = '', type = '', pem = '', slotA = ''] = answers;
    const { exitCode, out } = await setUp(
      ['', url, type, pem, '', 'nothing', slotA, '', 'none', 'Bash', 'no-such-package', 'bash', 'y'],
      ['--from', part],
    );
    expect(out).toContain('service.url: an answer is needed');
    expect(out).toContain('slots.A: an answer is needed Or answer "none" if this gateway has no slots.');
    expect(out).toMatch(/expected an absolute path [^?]*"nothing" Or answer "none"/);
    expect(out).toContain('Partition of slot B (or "none" if this gateway has no slots):');
    expect(exitCode).toBe(0);
    expect(out).toContain('targets.Bash.package: expected the name of a Debian package');
    expect(out).toContain('targets.no-such-package: the package no-such-package is not installed');
    const written = await readFile(join(directory, 'config.toml'), 'utf8');
    expect(written).toMatch(/\[targets.bash\]\nkind = "package"\npackage = "bash"\n/);
  });

  test('warns of an unusual but permitted serial number', async () => {
    await writeFile(part, (await readFile(part, 'utf8')).replace('GW-1', 'GW 1/ü'));
    const { out } = await setUp([], ['--yes', '--from', part]);
    expect(out).toMatch(/Note: the serial number "GW 1\/ü" has a blank and a slash and a character beyond ASCII in it/);
  });

  // Regression: it advised to run setup.
  test('reports that the file of --from is missing', async () => {
    const missing = join(directory, 'missing.toml');
    expect(await setUp([], ['--from', missing])).toMatchObject({
      exitCode: 78,
      out: expect.stringMatching(/: no such file for --from What to do: check the path/) as unknown,
    });
  });

  test('asks again with the previous answers, if the result is unusable here', async () => {
    const same = [...answers.slice(0, 4), await linkToSlotA(), ...answers.slice(5), 'y'];
    const again = ['', '', '', '', answers[4] ?? '', '', '', 'y'];
    const { exitCode, out } = await setUp([...same, ...again], ['--from', part]);
    expect(out).toMatch(
      /A and B are the same[^]*Nothing was written\. Correct your answers[^]*\(as in your releases\) \[my-board\]:/,
    );
    expect(exitCode).toBe(0);
    expect(await readFile(join(directory, 'config.toml'), 'utf8')).toContain('slot-b');
  });

  test('writes nothing after a refusal, at the end of input, and if the result is unusable here', async () => {
    const before = (await readdir(directory)).sort();
    const refusals = [
      await setUp([...answers, 'n'], ['--from', part]),
      await setUp(answers.slice(0, 3), ['--from', part]),
      await setUp([...answers.slice(0, 4), await linkToSlotA(), ...answers.slice(5), 'y'], ['--from', part]),
      await setUp([], ['--yes', '--from', part]),
    ];
    expect(refusals.map(({ exitCode }) => exitCode)).toEqual([70, 64, 78, 78]);
    expect(refusals[2]?.out).toMatch(/targets\.gateway\.slots: A and B are the same/);
    expect(refusals[3]?.out).toContain('service.url could not be detected');
    expect(refusals[3]?.out).toContain('with a board or a package in [targets] if this gateway has no slots');
    for (const { names, out } of refusals) {
      expect(names.filter((name) => !['state', 'run'].includes(name)).sort()).toEqual(before);
      expect(out).not.toMatch(/ at \S+:\d+:\d+/);
    }
  });

  // Regression: an internal error, with nothing about what to do.
  test('reports where it cannot write, and that it is due to the disk', async () => {
    const path = join(part, 'config.toml'); // a folder that is a file
    const { exitCode, out } = await setUp([...answers, 'y'], ['--from', part, '--config', path]);
    expect(exitCode).toBe(74);
    expect(out).toContain(`cannot write ${path}`);
    expect(out).toContain('(state-unavailable)');
  });

  test('with --yes asks no question; the previous file is kept, and may be the starting point', async () => {
    await setUp([...answers, 'y'], ['--from', part]);
    const byHand = `# by hand\n${await readFile(join(directory, 'config.toml'), 'utf8')}`;
    await writeFile(join(directory, 'config.toml'), byHand);
    const { exitCode } = await setUp([], ['--yes', '--from', join(directory, 'config.toml'), '--json']);
    expect(exitCode).toBe(0);
    const { names } = await setUp([], ['--yes', '--from', join(directory, 'config.toml')]);
    expect(names.filter((name) => name.includes('before'))).toEqual(['config.toml.before']); // the third was as the second
    expect(await readFile(join(directory, 'config.toml.before'), 'utf8')).toBe(byHand);
    expect(await readFile(join(directory, 'config.toml'), 'utf8')).toContain('device_type = "my-board"');
  });
});
