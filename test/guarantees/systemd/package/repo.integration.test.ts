import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { makeRepository } from '../../../../systemd/make/repo.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { newDirectory } from '../installed-root.ts';

const run = promisify(execFile);

let directory: string;
let folder: string;
let keyring: string;

beforeAll(async () => {
  directory = await newDirectory();
  [folder, keyring] = [join(directory, 'packages'), join(directory, 'keys')];
  await mkdir(join(directory, 'root/DEBIAN'), { recursive: true });
  await mkdir(folder);
  await mkdir(keyring, { mode: 0o700 });
  const control =
    'Package: thing-agent\nVersion: 1.2.3\nArchitecture: arm64\nMaintainer: nobody\nDescription: a test\n';
  await writeFile(join(directory, 'root/DEBIAN/control'), control);
  await tool(['dpkg-deb', '--root-owner-group', '-Znone', '--build', join(directory, 'root'), folder]);
  const key = ['--quick-generate-key', 'repo@things.example.com', 'ed25519', 'sign', 'never'] as const;
  await tool(['gpg', '--homedir', keyring, '--batch', '--passphrase', '', ...key]);
});

afterAll(async () => {
  await tool(['gpgconf', '--homedir', keyring, '--kill', 'all']);
  await rm(directory, { recursive: true });
});

test('signs a repository of packages, lists them, and replaces the old one when made again', async () => {
  for (let time = 0; time < 2; time += 1) {
    expect(await makeRepository(folder, 'repo@things.example.com', keyring)).toEqual([
      {
        path: 'thing-agent_1.2.3_arm64.deb',
        version: '1.2.3',
        architecture: 'arm64',
        bytes: expect.any(Number) as unknown,
      },
    ]);
  }
  const stable = join(folder, 'dists/stable');
  const index = await readFile(join(stable, 'main/binary-arm64/Packages'), 'utf8');
  expect(index).toMatch(/^Package: thing-agent$[^]*^Filename: \.\/thing-agent_1\.2\.3_arm64\.deb$/m);
  expect(await readFile(join(stable, 'main/binary-amd64/Packages'), 'utf8')).toBe('');
  const said = await tool([
    'gpgv',
    '--status-fd',
    '1',
    '--keyring',
    join(folder, 'thing-agent.gpg'),
    join(stable, 'InRelease'),
  ]);
  expect(said).toContain('GOODSIG');
  expect((await readdir(join(folder, 'dists'))).sort()).toEqual(['stable']);
});

/** Runs apt of an arm64 gateway that has only this repository. */
async function apt(...words: readonly string[]): Promise<string> {
  const state = join(directory, 'apt');
  await mkdir(join(state, 'lists/partial'), { recursive: true });
  await mkdir(join(state, 'archives/partial'), { recursive: true });
  await writeFile(join(state, 'status'), '');
  await writeFile(join(state, 'list'), `deb [signed-by=${folder}/thing-agent.gpg] file:${folder} stable main\n`);
  const options = {
    'Dir::Etc::sourcelist': join(state, 'list'),
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::Etc::preferencesparts': '/dev/null',
    'Dir::State': state,
    'Dir::State::status': join(state, 'status'),
    'Dir::Cache': state,
    'APT::Architecture': 'arm64',
    'APT::Architectures::': 'arm64',
    'APT::Sandbox::User': 'root',
  };
  return tool(['apt-get', ...Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]), ...words]);
}

test('apt finds the package, and installs nothing from a changed repository', async () => {
  await makeRepository(folder, 'repo@things.example.com', keyring);
  await apt('update');
  expect(await apt('--simulate', 'install', 'thing-agent')).toContain('Inst thing-agent (1.2.3 Thing Agent:stable');
  const signed = join(folder, 'dists/stable/InRelease');
  await writeFile(signed, (await readFile(signed, 'utf8')).replace('Suite: stable', 'Suite: xtable'));
  await rm(join(directory, 'apt'), { recursive: true });
  await expect(apt('update')).rejects.toThrow('is not signed');
});

test('explains how to make packages when the directory is empty or missing', async () => {
  await expect(makeRepository(join(directory, 'nothing'), 'x', keyring)).rejects.toThrow(
    /holds no packages: npm run deb/,
  );
  await expect(makeRepository(keyring, 'x', keyring)).rejects.toThrow(/holds no packages/);
});

// Regression: apt-ftparchive skips files that it cannot read. A package was missing in the signed index, with exit 0.
test.each([
  ['junk', 'thing-agent_1.2.4_arm64.deb'],
  ['a package of another name', 'thing-agent.deb'],
])('names %s next to good packages, and signs or replaces nothing', async (_what, name) => {
  await makeRepository(folder, 'repo@things.example.com', keyring);
  const signed = join(folder, 'dists/stable/InRelease');
  const before = await readFile(signed, 'utf8');
  await writeFile(join(folder, name), 'junk');
  try {
    await expect(makeRepository(folder, 'repo@things.example.com', keyring)).rejects.toThrow(
      `nothing was signed: these are no packages (NAME_VERSION_ARCH.deb for amd64, arm64 or all), or are damaged: ${name}`,
    );
    expect(await readFile(signed, 'utf8')).toBe(before);
    expect((await readdir(folder)).filter((entry) => entry.startsWith('.'))).toEqual([]);
  } finally {
    await rm(join(folder, name));
  }
});

test('junk alone makes no repository', async () => {
  const alone = join(directory, 'junk');
  await mkdir(alone);
  await writeFile(join(alone, 'a_1_amd64.deb'), 'junk');
  await expect(makeRepository(alone, 'repo@things.example.com', keyring)).rejects.toThrow('a_1_amd64.deb');
  expect(await readdir(alone)).toEqual(['a_1_amd64.deb']);
});

test('what is not a folder is called so', async () => {
  const file = join(directory, 'root/DEBIAN/control');
  await expect(makeRepository(file, 'x', keyring)).rejects.toThrow(`${file} is not a folder`);
});

test.each([
  ['repo', ['one', 'two', '--key', 'x'], /^repo: one DIR is taken, not also two\nusage: npm run repo /],
  ['repo', ['one'], /^repo: DIR and --key are needed\nusage: npm run repo /],
  ['repo', ['--nonsense'], /^repo: .*--nonsense.*\nusage: npm run repo /],
  ['deb', ['--nonsense'], /^deb: .*--nonsense.*\nusage: npm run deb /],
  ['deb', ['operand'], /^deb: .*operand.*\nusage: npm run deb /],
  ['build', ['--nonsense'], /^build: .*--nonsense.*\nusage: /],
])('what cannot be meant (%s %j) is refused with the usage', async (program, args, told) => {
  const path = fileURLToPath(new URL(`../../../../systemd/make/${program}.ts`, import.meta.url));
  const failure: unknown = await run(process.execPath, [path, ...args]).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: 64, stdout: '', stderr: expect.stringMatching(told) as unknown });
});
