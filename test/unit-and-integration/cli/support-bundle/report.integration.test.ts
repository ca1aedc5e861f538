import { execFile, execFileSync } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { testInFull } from '../../../full-run.ts';
import { folderUntilTestEnds, untilTestEnds } from '../../../until-test-ends.ts';
import { fakeSupport, type as typeAt } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';
import { openReport } from './open-report.ts';

const run = promisify(execFile);
const always = [
  'status',
  'doctor',
  'configuration',
  'history',
  'security',
  'sensors',
  'versions',
  'mounts',
  'boot-environment',
];

/** This machine may have a journal, or none. */
const withoutLog = { journalctl: 'exit 1' };

let gateway: FileGateway;
let folder: string;
let file: string;

beforeEach(async () => {
  const image = Buffer.from('healthy 0');
  gateway = untilTestEnds(
    await FileGateway.create({ serviceUrl: 'http://127.0.0.1:9', image, slotBytes: 1024 * 1024 }),
  );
  folder = folderUntilTestEnds();
  file = join(folder, 'gw.tar.gz');
});

async function report(words: readonly string[] = [file], environment: Readonly<Record<string, string>> = {}) {
  const { stdout: out, stderr: err, exitCode } = await gateway.runIn(environment, 'support-bundle', ...words);
  return { out, err, exitCode };
}

/** Programs that replace the machine's. */
async function programs(scripts: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> {
  const bin = join(folder, 'bin');
  await mkdir(bin);
  for (const [name, lines] of Object.entries(scripts)) {
    await writeFile(join(bin, name), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
  }
  return { PATH: `${bin}:${process.env['PATH'] ?? ''}` };
}

test('a bundle lists its path, size, content, omissions, and the absence of keys, in a line each', async () => {
  const { out, err, exitCode } = await report([file], await programs(withoutLog));
  expect(exitCode).toBe(0);
  expect(err).toBe('');
  const lines = out.trimEnd().split('\n');
  expect(lines[0]).toBe(`Written: ${file}`);
  expect(lines[1]).toMatch(/^Size: \d+\.\d KiB; readable only by its owner$/);
  expect(lines[2]).toBe(`Contents: ${always.join(', ')}`);
  expect(lines[3]).toMatch(/^Missing \(reasons in its README\.txt\): journal, log,/);
  expect(lines[4]).toMatch(/^The keys and passwords of this gateway were removed from every part/);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await readdir(folder)).toSorted()).toEqual(['bin', 'gw.tar.gz']);
  const files = await openReport(file);
  expect(Object.keys(files)[0]).toBe('README.txt');
  expect(JSON.parse(files['status.json'] ?? '')).toMatchObject({ serialNumber: 'GW-0001' });
  expect(files['README.txt']).toMatch(/^ {2}journal +ENOENT: .*journal\.json' \(part-unavailable\)$/m);
  expect(JSON.parse(files['boot-environment.json'] ?? '')).toMatchObject({ booted: 'A', state: { primary: 'A' } });
  expect(files['versions.txt']).toMatch(/^agent: .*\nnode: v.*\nkernel: /);
});

test('is an archive that tar reads, whatever the name of the file', async () => {
  const long = join(folder, `${'ü'.repeat(120)}.tgz`);
  expect((await report([long])).exitCode).toBe(0);
  const { stdout } = await run('tar', ['--list', '--verbose', '--file', long]);
  expect(stdout).toMatch(/^-rw------- 0\/0 +\d+ 20\d\d-.* \S{30,}\/README\.txt$/m);
  await run('tar', ['--extract', '--file', long, '--directory', folder]);
  const directory = (await readdir(folder)).find((name) => !name.endsWith('.tgz')) ?? '';
  expect(directory).toBe('ü'.repeat(77));
  expect(JSON.parse(await readFile(join(folder, directory, 'status.json'), 'utf8'))).toMatchObject({ booted: 'A' });
});

test('with --json it tells the same as a closed set of words', async () => {
  const { out } = await report([file, '--json'], await programs(withoutLog));
  const told = JSON.parse(out) as { files: { part: string; sizeBytes: number }[]; missing: object[] };
  expect(told).toMatchObject({ path: file, hidden: 0 });
  expect([...new Set(told.files.map(({ part }) => part))]).toEqual(always);
  expect(told.missing).toContainEqual({ part: 'journal', code: 'part-unavailable' });
});

test('at a terminal it is wrapped, and shows progress until it is done', async () => {
  const world = { columns: 60, daemon: fakeAgent(), directory: folder, support: async () => fakeSupport };
  const { exitCode, out, context } = await typeAt(['support-bundle', 'gw.tar.gz'], world);
  expect(exitCode).toBe(0);
  expect(out).toContain(`Written: ${file}`);
  expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(60);
  expect(context.err.pinned).toContain('Collecting: doctor ...');
  expect(context.err.pinned.at(-1)).toBeUndefined();
});

test(
  'it is requested from a running daemon, and made directly if the daemon is unresponsive',
  { timeout: 60_000 },
  async () => {
    const daemon = await gateway.startDaemon();
    await report();
    expect(JSON.parse((await openReport(file))['status.json'] ?? '')).toMatchObject({ daemon: true });
    daemon.kill('SIGSTOP');
    const { exitCode, err } = await report([file, '--overwrite']);
    expect(exitCode).toBe(0);
    expect(err).toContain('the daemon is not responding');
    const files = await openReport(file);
    expect(JSON.parse(files['status.json'] ?? '')).toMatchObject({
      problems: ['daemon-unresponsive', 'not-activated'],
    });
    expect(files['doctor.json']).toContain('daemon-unresponsive');
  },
);

testInFull('pipes instead of state files cause no delay, and are reported', async () => {
  await mkdir(join(gateway.directory, 'state'), { mode: 0o700 });
  for (const name of ['journal.json', 'history.json', 'security.json', 'identity.json']) {
    await run('mkfifo', [join(gateway.directory, 'state', name)]);
  }
  const { exitCode } = await report();
  expect(exitCode).toBe(0);
  const readme = (await openReport(file))['README.txt'];
  expect(readme).toMatch(/^ {2}journal +it is not a regular file/m);
});

test('an invalid configuration is reported with all its errors, and the rest is packed', async () => {
  await writeFile(
    join(gateway.directory, 'config.toml'),
    `[paths]\nstate = "${gateway.directory}/state"\n[nonsense]\n`,
  );
  await mkdir(join(gateway.directory, 'state'));
  await writeFile(join(gateway.directory, 'state/journal.json'), '{"phase": 1}');
  const { exitCode } = await report();
  expect(exitCode).toBe(0);
  const files = await openReport(file);
  expect(files['config-problems.txt']).toMatch(/nonsense.*\n/);
  expect(files['README.txt']).toMatch(/^ {2}status .*\(config-invalid\)$/m);
  expect(JSON.parse(files['journal.json'] ?? '')).toEqual({ phase: 1 });
  expect(files['config.toml']).toBeUndefined();
});

test('an ordinary user gets what he may see, and the reasons for the rest', async () => {
  await mkdir(join(gateway.directory, 'state'), { mode: 0o700 });
  await chmod(gateway.directory, 0o711);
  await chmod(gateway.configFile, 0o600);
  await chmod(folder, 0o777);
  const ordinary = ['--reuid=65534', '--regid=65534', '--clear-groups', '--'];
  const main = join(import.meta.dirname, '../../../../src/main.ts');
  const command = [process.execPath, main, '--config', gateway.configFile, 'support-bundle', file];
  const { stdout } = await run('setpriv', [...ordinary, ...command], { env: { PATH: process.env['PATH'] ?? '' } });
  expect(stdout).toContain('Contents: doctor, config-problems, versions, mounts');
  expect((await openReport(file))['README.txt']).toMatch(
    /^ {2}configuration +.*permission denied.*\(config-unreadable\)$/m,
  );
});

describe('a secret', () => {
  const secret = 'br0ker-w0rd';

  test('is removed from program output and from a state file, in any spelling, and JSON stays JSON', async () => {
    const inBase64 = Buffer.from(secret).toString('base64');
    const password = join(gateway.directory, 'password');
    await writeFile(password, `${secret}\n`, { mode: 0o600 });
    const messaging = `messaging = { url = "mqtts://b.example.com", topic_id = "a", username = "u", password_file = "${password}" }`;
    await gateway.configure({
      serviceUrl: 'http://127.0.0.1:9',
      image: Buffer.alloc(0),
      slotBytes: 0,
      serviceToml: messaging,
      extraToml:
        '[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "exec", command = ["/bin/true", "an-argument"] }',
    });
    await mkdir(join(gateway.directory, 'state'), { mode: 0o700 });
    const identity = { serialNumber: 'GW-0001', thingId: 't', apiKey: 'k3y-of-it', activatedAt: '' };
    await writeFile(join(gateway.directory, 'state/identity.json'), JSON.stringify(identity));
    await writeFile(join(gateway.directory, 'state/journal.json'), JSON.stringify({ why: `k3y-of-it ${secret}` }));
    const said = `echo 'x ${secret} ${inBase64} https://a:b0b@host/'; echo 'apiKey: whatever'`;
    const environment = await programs({ journalctl: said, dmesg: said, systemctl: said });
    const { exitCode } = await report([file], { ...environment, HTTPS_PROXY: 'http://u:pr0xy-w0rd@p' });
    expect(exitCode).toBe(0);
    const files = await openReport(file);
    expect(files['log.txt']).toBe('x ******** ******** https://********@host/\napiKey: ********\n');
    expect(JSON.parse(files['journal.json'] ?? '')).toEqual({ why: '******** ********' });
    expect(files['config-problems.txt']).toBeUndefined();
    expect(files['config.toml']).toContain('"/bin/true", "********"');
    const all = Object.values(files).join('\n');
    for (const word of [secret, inBase64, 'k3y-of-it', 'b0b', 'pr0xy-w0rd', 'an-argument'])
      expect(all).not.toContain(word);
  });
});

test('includes kernel messages that name a configured device', async () => {
  const text = await readFile(gateway.configFile, 'utf8');
  const sensor = '[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "hwmon", chip = "c", input = "temp1" }';
  await writeFile(gateway.configFile, `${text}\n${sensor}\n`);
  const lines =
    "echo '[ 1.0] hwmon hwmon0: too hot'; printf '[ 2.0] wlan0: left \\033[31m\\n[ 3.0] hwmon1 \\033[31m\\n'";
  const environment = await programs({ journalctl: 'exit 1', dmesg: lines });
  await report([file], environment);
  const [head, ...told] = ((await openReport(file))['kernel.txt'] ?? '').trimEnd().split('\n');
  expect(head).toBe('# kernel messages of this boot about: hwmon');
  expect(told).toEqual(['[ 1.0] hwmon hwmon0: too hot', String.raw`[ 3.0] hwmon1 \x1b[31m`]);
});

test('limits the output of a program, and stops an endless one', { timeout: 60_000 }, async () => {
  const environment = await programs({
    journalctl: 'yes "a line of the log" | head -c 3000000',
    systemctl: 'sleep 600',
  });
  const { exitCode } = await report([file], environment);
  expect(exitCode).toBe(0);
  const files = await openReport(file);
  expect(files['log.txt']?.length).toBeLessThanOrEqual(2 * 1024 * 1024);
  expect(files['README.txt']).toMatch(/Truncated:\n {2}log\.txt\n/);
  expect(files['README.txt']).toMatch(/^ {2}unit +.*no end within 8000 ms \(program-timeout\)$/m);
});

describe('where it may not be written', () => {
  /** Returns `exit code: output`, and asserts that nothing was written. */
  async function refusal(path: string, ...more: readonly string[]): Promise<string> {
    const before = await readdir(folder);
    const { exitCode, err, out } = await report([path, ...more]);
    expect(out).toBe('');
    expect(await readdir(folder)).toEqual(before);
    return `${exitCode}: ${err}`;
  }

  test('is an existing file, unless overwriting is requested', async () => {
    await writeFile(file, 'precious');
    expect(await refusal(file)).toMatch(/^77: .*exists \(output-exists\)/);
    expect(await readFile(file, 'utf8')).toBe('precious');
    expect((await report([file, '--overwrite'])).exitCode).toBe(0);
    expect(await openReport(file)).toHaveProperty(['README.txt']);
  });

  test('is a folder that is missing', async () => {
    expect(await refusal(join(folder, 'none/gw.tgz'))).toMatch(/^74: .*\(output-unwritable\)/);
  });

  test('is a name without .tar.gz', async () => {
    expect(await refusal(join(folder, 'gw.zip'))).toMatch(/^64: .*does not end with \.tar\.gz/);
  });

  test('is a pipe, a link, a slot, and a path among devices, in each case', async () => {
    const pipe = join(folder, 'pipe.tgz');
    await run('mkfifo', [pipe]);
    const link = join(folder, 'link.tgz');
    await symlink(join(folder, 'elsewhere'), link);
    for (const path of [pipe, link, '/dev/gw.tgz']) {
      expect(await refusal(path, '--overwrite')).toMatch(/^77: .*\(output-refused\)/);
    }
  });

  test('is a slot that is a file, and the file system on one', async () => {
    const slot = join(folder, 'slot.tgz');
    const mount = join(folder, 'mount');
    await mkdir(mount);
    execFileSync('truncate', ['-s', '16M', slot]);
    execFileSync('mkfs.ext4', ['-q', slot]);
    execFileSync('mount', ['-o', 'loop', slot, mount]);
    onTestFinished(() => void execFileSync('umount', [mount]));
    const text = await readFile(gateway.configFile, 'utf8');
    await writeFile(gateway.configFile, text.replace(gateway.slots.B, slot));
    for (const path of [slot, join(mount, 'gw.tgz')]) {
      const told = await refusal(path, '--overwrite');
      expect(told).toMatch(/^77: /);
      expect(told).toContain(`is on slot ${slot} (output-refused)`);
    }
  });

  test('is a file system that is full: nothing is left there', async () => {
    const mount = join(folder, 'full');
    await mkdir(mount);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', mount]);
    onTestFinished(() => void execFileSync('umount', [mount]));
    await writeFile(join(mount, 'filler'), Buffer.alloc(12 * 1024));
    await writeFile(join(mount, 'more'), Buffer.alloc(4 * 1024));
    const { exitCode, err } = await report([join(mount, 'gw.tgz')]);
    expect(`${exitCode}: ${err}`).toMatch(/^74: .*no space left.*output-unwritable/s);
    expect(await readdir(mount)).toEqual(['filler', 'more']);
  });
});
