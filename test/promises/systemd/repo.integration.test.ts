import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { makeRepository } from '../../../systemd/repo.ts';
import { tool } from '../../stand-ins/machine/tool.ts';
import { newDirectory } from './installed-root.ts';

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

test('a repository of packages is signed, names them, and is made again in the place of the old one', async () => {
  for (let time = 0; time < 2; time += 1) await makeRepository(folder, 'repo@things.example.com', keyring);
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

test('a folder without packages, or none, is told what makes one', async () => {
  await expect(makeRepository(join(directory, 'nothing'), 'x', keyring)).rejects.toThrow(
    /holds no packages: npm run deb/,
  );
  await expect(makeRepository(keyring, 'x', keyring)).rejects.toThrow(/holds no packages/);
});
