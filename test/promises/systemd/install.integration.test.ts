import { mkdir, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { type Ended, fakeTree, newDirectory, run, systemdDirectory } from './installed-root.ts';

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
  return files.map((file, index) => `${modes[index]?.toString(8)} ${file.slice(place.length)}`).sort();
}

const installed = [
  '644 /etc/thing-agent/config.toml',
  '644 /usr/lib/systemd/system/thing-agent-trial.service',
  '644 /usr/lib/systemd/system/thing-agent-trial.timer',
  '644 /usr/lib/systemd/system/thing-agent.service',
  '644 /usr/lib/sysusers.d/thing-agent.conf',
  '644 /usr/lib/thing-agent/lib/main.js',
  '644 /usr/lib/thing-agent/lib/one.js',
  '644 /usr/lib/tmpfiles.d/thing-agent.conf',
  '644 /usr/lib/udev/rules.d/99-thing-agent.rules',
  '755 /usr/bin/agent',
  '755 /usr/lib/thing-agent/agent',
  '755 /usr/lib/thing-agent/bin/node',
  '755 /usr/lib/thing-agent/trial-guard',
];

describe('systemd/install', () => {
  test('puts everything in its place, and again the same', async () => {
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
    expect(await filesIn(root)).toEqual(installed);
    expect(await readFile(join(root, 'etc/thing-agent/config.toml'), 'utf8')).toBe('# mine\n');
  });

  test('makes the service start at boot where that is asked', async () => {
    await install('--root', root, '--tree', await fakeTree(directory, 'one'), '--enable');
    for (const link of [
      'multi-user.target.wants/thing-agent.service',
      'sysinit.target.wants/thing-agent-trial.timer',
    ]) {
      const target = `/usr/lib/systemd/system/${basename(link)}`;
      expect(await readlink(join(root, 'etc/systemd/system', link))).toBe(target);
    }
  });

  test('makes the group in an image, whose /etc may be read-only when it boots', async () => {
    await mkdir(join(root, 'etc'));
    await writeFile(join(root, 'etc/group'), 'root:x:0:\n');
    expect(await install('--root', root, '--tree', await fakeTree(directory, 'one'))).toMatchObject({ exitCode: 0 });
    expect(await readFile(join(root, 'etc/group'), 'utf8')).toMatch(/^thing-agent:x:\d+:$/m);
  });

  test('takes away all that it brought, but neither configuration nor state', async () => {
    await install('--root', root, '--tree', await fakeTree(directory, 'one'), '--enable');
    await mkdir(join(root, 'var/lib/thing-agent'), { recursive: true });
    await writeFile(join(root, 'var/lib/thing-agent/identity.json'), '{}');
    for (const round of [1, 2]) {
      expect(await install('--root', root, '--uninstall'), `round ${round}`).toMatchObject({ exitCode: 0 });
      expect(await filesIn(root)).toEqual([
        '644 /etc/thing-agent/config.toml',
        '644 /var/lib/thing-agent/identity.json',
      ]);
    }
  });

  test('does not touch a program of the same name that is not ours', async () => {
    await mkdir(join(root, 'usr/bin'), { recursive: true });
    await writeFile(join(root, 'usr/bin/agent'), 'other');
    const ended = await install('--root', root, '--tree', await fakeTree(directory, 'one'));
    expect(ended).toMatchObject({ exitCode: 73, output: `install: ${root}/usr/bin/agent belongs to something else\n` });
    await install('--root', root, '--uninstall');
    expect(await filesIn(root)).toEqual(['644 /usr/bin/agent']);
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
