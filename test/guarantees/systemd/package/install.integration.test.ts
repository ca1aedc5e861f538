import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { howMuch } from '../../../full.ts';
import { type Ended, fakeTree, newDirectory, run, systemdDirectory } from '../installed-root.ts';

let directory: string;
let root: string;

beforeEach(async () => {
  directory = await newDirectory();
  root = join(directory, 'root');
  await mkdir(root);
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function install(...args: readonly string[]): Promise<Ended> {
  return run(join(systemdDirectory, 'install'), ...args);
}

/** Every file below the root, with its mode. */
async function filesIn(place: string): Promise<readonly string[]> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
  const modes = await Promise.all(files.map(async (file) => (await stat(file)).mode & 0o777));
  const names = files.map((file) => file.slice(place.length).replace(/tree\.[ab]/, 'tree'));
  return names.map((name, index) => `${modes[index]?.toString(8)} ${name}`).sort();
}

const installed = [
  '644 /etc/thing-agent/config.example.toml',
  '644 /usr/lib/systemd/system/thing-agent-trial.service',
  '644 /usr/lib/systemd/system/thing-agent-trial.timer',
  '644 /usr/lib/systemd/system/thing-agent.service',
  '644 /usr/lib/sysusers.d/thing-agent.conf',
  '644 /usr/lib/thing-agent/tree/lib/main.js',
  '644 /usr/lib/thing-agent/tree/lib/one.js',
  '644 /usr/lib/tmpfiles.d/thing-agent.conf',
  '644 /usr/lib/udev/rules.d/99-thing-agent.rules',
  '755 /usr/bin/agent',
  '755 /usr/lib/thing-agent/agent',
  '755 /usr/lib/thing-agent/tree/agent',
  '755 /usr/lib/thing-agent/tree/bin/node',
  '755 /usr/lib/thing-agent/tree/trial-guard',
  '755 /usr/lib/thing-agent/trial-guard',
];

describe('systemd/install', () => {
  test('installs every file, and the same files when it is repeated', async () => {
    const tree = await fakeTree(directory, 'one');
    expect(await install('--root', root, '--tree', tree)).toMatchObject({ exitCode: 0 });
    expect(await filesIn(root)).toEqual(installed);
    expect(await run(join(root, 'usr/bin/agent'))).toEqual({ exitCode: 0, output: 'one\n' });
    expect(await install('--root', root, '--tree', tree)).toMatchObject({ exitCode: 0 });
    expect(await filesIn(root)).toEqual(installed);
  });

  test('replaces an older program whole and keeps the configuration', async () => {
    await install('--root', root, '--tree', await fakeTree(directory, 'zero'));
    await writeFile(join(root, 'etc/thing-agent/config.toml'), '# mine\n');
    await install('--root', root, '--tree', await fakeTree(directory, 'one'));
    expect(await filesIn(root)).toEqual([...installed, '644 /etc/thing-agent/config.toml'].sort());
    expect(await readFile(join(root, 'etc/thing-agent/config.toml'), 'utf8')).toBe('# mine\n');
  });

  test('makes the service start at boot on request', async () => {
    const { output } = await install('--root', root, '--tree', await fakeTree(directory, 'one'), '--enable');
    expect(output).not.toContain('systemctl enable');
    for (const link of [
      'multi-user.target.wants/thing-agent.service',
      'sysinit.target.wants/thing-agent-trial.timer',
    ]) {
      const target = `/usr/lib/systemd/system/${basename(link)}`;
      expect(await readlink(join(root, 'etc/systemd/system', link))).toBe(target);
    }
  });

  test('makes the groups in an image, whose /etc may be read-only when it boots', async () => {
    await mkdir(join(root, 'etc'));
    await writeFile(join(root, 'etc/group'), 'root:x:0:\n');
    expect(await install('--root', root, '--tree', await fakeTree(directory, 'one'))).toMatchObject({ exitCode: 0 });
    expect(await readFile(join(root, 'etc/group'), 'utf8')).toMatch(
      /^thing-agent:x:\d+:$[^]*^thing-operators:x:\d+:$/m,
    );
  });

  /** Programs of HOSTTOOLS (OpenEmbedded-Core, meta/conf/bitbake.conf) that the script uses. */
  const hostTools = 'basename cat chmod cp cut dirname grep install ln mkdir mv readlink rm sed sh'.split(' ');

  // Regression: bitbake has no sync, and Buildroot's systemd no systemd-sysusers.
  test('needs only the programs that bitbake has, where the builder of the image makes the groups', async () => {
    const tree = await fakeTree(directory, 'one');
    await writeFile(join(tree, 'sbom.cdx.json'), '{}');
    const programs = join(directory, 'programs');
    await mkdir(programs);
    for (const name of hostTools) await symlink(`/usr/bin/${name}`, join(programs, name));
    await mkdir(join(root, 'etc'));
    await writeFile(join(root, 'etc/group'), 'root:x:0:\n');
    const words = [join(systemdDirectory, 'install'), '--root', root, '--tree', tree, '--no-groups'];
    expect(await run('env', `PATH=${programs}`, 'sh', '-e', ...words)).toMatchObject({ exitCode: 0 });
    expect(await readFile(join(root, 'etc/group'), 'utf8')).toBe('root:x:0:\n');
    expect(await filesIn(root)).toContain('644 /usr/lib/thing-agent/tree/sbom.cdx.json');
  });

  test('takes away all that it brought, but neither configuration nor state', async () => {
    await install('--root', root, '--tree', await fakeTree(directory, 'one'), '--enable');
    await mkdir(join(root, 'var/lib/thing-agent'), { recursive: true });
    await writeFile(join(root, 'var/lib/thing-agent/identity.json'), '{}');
    await writeFile(join(root, 'etc/thing-agent/config.toml'), '# mine\n');
    for (const round of [1, 2]) {
      expect(await install('--root', root, '--uninstall'), `round ${round}`).toMatchObject({ exitCode: 0 });
      expect(await filesIn(root)).toEqual([
        '644 /etc/thing-agent/config.toml',
        '644 /var/lib/thing-agent/identity.json',
      ]);
    }
  });

  test('follows links as the image will, and writes nothing outside of it', async () => {
    const outside = join(directory, 'outside');
    await mkdir(outside);
    await mkdir(join(root, 'etc'));
    await mkdir(join(root, 'usr/lib'), { recursive: true });
    await symlink(outside, join(root, 'etc/thing-agent'));
    await symlink('/usr/lib/../../../../opt/units', join(root, 'usr/lib/systemd'));
    const tree = await fakeTree(directory, 'one');
    expect(await install('--root', root, '--tree', tree, '--enable')).toMatchObject({ exitCode: 0 });
    expect(await readdir(outside)).toEqual([]);
    expect(await readdir(join(root, outside))).toEqual(['config.example.toml', 'trust']);
    expect(await readdir(join(root, 'opt/units/system'))).toContain('thing-agent.service');
    expect(await install('--root', root, '--uninstall')).toMatchObject({ exitCode: 0 });
    expect(await readdir(join(root, 'opt/units/system'))).toEqual([]);
  });

  test('does not write through a link at the path of a temporary file', async () => {
    const victim = join(directory, 'victim');
    await writeFile(victim, 'mine');
    await mkdir(join(root, 'usr/lib/sysusers.d'), { recursive: true });
    await symlink(victim, join(root, 'usr/lib/sysusers.d/thing-agent.conf.new'));
    await install('--root', root, '--tree', await fakeTree(directory, 'one'));
    expect(await readFile(victim, 'utf8')).toBe('mine');
  });

  test('always has a program: a start during the installation gets the old or the new one', async () => {
    const trees = [await fakeTree(directory, 'zero'), await fakeTree(directory, 'one')];
    await install('--root', root, '--tree', trees[0] ?? '');
    const program = join(root, 'usr/bin/agent');
    const starter = 'while :; do "$1" || echo missing; done';
    const child = spawn('sh', ['-c', starter, 'sh', program], { stdio: ['ignore', 'pipe', 'pipe'] });
    const said = new Set<string>();
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      for (const line of text.trim().split('\n')) said.add(line);
    });
    for (let round = 0; round < howMuch(8, 3); round += 1) {
      expect(await install('--root', root, '--tree', trees[(round + 1) % 2] ?? '')).toMatchObject({ exitCode: 0 });
    }
    const ended = once(child, 'close');
    child.kill('SIGKILL');
    await ended;
    expect([...said].sort()).toEqual(['one', 'zero']);
  });

  test('takes the place of a program that was installed in one tree', async () => {
    const home = join(root, 'usr/lib/thing-agent');
    await mkdir(join(home, 'lib'), { recursive: true });
    await writeFile(join(home, 'agent'), '#!/bin/sh\necho old\n', { mode: 0o755 });
    await install('--root', root, '--tree', await fakeTree(directory, 'one'));
    expect(await filesIn(root)).toEqual(installed);
    expect((await readdir(home)).sort()).toEqual(['agent', 'tree.a', 'trial-guard']);
  });

  test('does not touch a program of the same name that is not ours', async () => {
    await mkdir(join(root, 'usr/bin'), { recursive: true });
    await writeFile(join(root, 'usr/bin/agent'), 'other');
    const ended = await install('--root', root, '--tree', await fakeTree(directory, 'one'));
    expect(ended).toMatchObject({ exitCode: 73, output: `install: ${root}/usr/bin/agent belongs to something else\n` });
    await install('--root', root, '--uninstall');
    expect(await filesIn(root)).toEqual(['644 /usr/bin/agent']);
  });

  test('leaves what the package manager brought to it', async () => {
    const list = join(root, 'var/lib/dpkg/info/thing-agent.list');
    await mkdir(join(list, '..'), { recursive: true });
    await writeFile(list, '/.\n/usr/lib/thing-agent/agent\n');
    const refusal = `install: the package thing-agent is installed in ${root}: apt remove thing-agent first\n`;
    const tree = await fakeTree(directory, 'one');
    expect(await install('--root', root, '--tree', tree)).toEqual({ exitCode: 73, output: refusal });
    expect(await install('--root', root, '--uninstall')).toEqual({ exitCode: 73, output: refusal });
    await writeFile(list, '/etc/thing-agent/config.toml\n');
    expect(await install('--root', root, '--tree', tree)).toMatchObject({ exitCode: 0 });
  });

  test.each([
    [['--tree', '/nowhere'], 64, '/nowhere is not a directory'],
    [['--tree', '/usr'], 66, "/usr/agent is missing: run 'npm run build' first"],
    [['--rot', '/'], 64, 'unknown argument --rot (try --help)'],
    [['--root'], 64, '--root needs a directory'],
  ])('says what is wrong with %j', async (args, exitCode, why) => {
    expect(await install('--root', root, ...args)).toEqual({ exitCode, output: `install: ${why}\n` });
    expect(await filesIn(root)).toEqual([]);
  });

  test('tells how it is used', async () => {
    const { exitCode, output } = await install('--help');
    expect(exitCode).toBe(0);
    expect(output).toMatch(/^Installs the agent[^]*--uninstall {3}remove everything/);
    expect(output).not.toContain('set -eu');
  });
});
