import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { writeDelta } from '../../../../src/firmware/delta/write-delta.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { buildArtifact } from '../artifact/build-artifact.ts';

const never = new AbortController().signal;
let folder: string;

beforeEach(async () => {
  folder = folderUntilTestEnds();
  await writeFile(join(folder, 'image'), 'an image');
  await writeFile(join(folder, 'empty'), '');
  const files = [{ name: 'rootfs.img', content: Buffer.from('an image') }];
  await writeFile(join(folder, 'artifact'), await buildArtifact({ name: '1', devices: ['gw'], files }));
});

test.each([
  ['missing', 'image', 'file-unreadable', 'ENOENT'],
  ['image', 'empty', 'file-unreadable', 'it is empty'],
  ['artifact', 'image', 'file-unreadable', 'it is an artifact: name the image that is in it'],
  ['.', 'image', 'file-unreadable', 'cannot read'],
])('a delta from «%s» to «%s» is refused, and nothing is left of it', async (base, result, code, told) => {
  const before = await readdir(folder);
  const [target, securityVersion, key] = [undefined, undefined, undefined];
  const images = { base: join(folder, base), result: join(folder, result), output: join(folder, 'delta.mender') };
  const order = { name: '2', deviceType: 'gw', target, securityVersion, key, ...images };
  await expect(writeDelta(order, never)).rejects.toThrow(told);
  await expect(writeDelta(order, never)).rejects.toMatchObject({ code });
  expect(await readdir(folder)).toEqual(before);
});

test('a delta for a place that does not exist is refused', async () => {
  const image = join(folder, 'image');
  const [target, securityVersion, key] = [undefined, undefined, undefined];
  const images = { base: image, result: image, output: join(folder, 'nowhere/delta.mender') };
  const order = { name: '2', deviceType: 'gw', target, securityVersion, key, ...images };
  const told = `cannot write ${images.output}: no such directory: ${join(folder, 'nowhere')}`;
  await expect(writeDelta(order, never)).rejects.toMatchObject({ code: 'delta-unwritten', message: told });
});

// Regression: everything was read and rebuilt before mender-artifact reported the missing key in its own words.
test('a delta whose private key is missing is refused before its images are read', async () => {
  const [target, securityVersion, key] = [undefined, undefined, join(folder, 'no.pem')];
  const images = { base: join(folder, 'missing'), result: join(folder, 'image'), output: join(folder, 'delta.mender') };
  const order = { name: '2', deviceType: 'gw', target, securityVersion, key, ...images };
  await expect(writeDelta(order, never)).rejects.toThrow(`cannot read ${key}: ENOENT`);
  await expect(writeDelta(order, never)).rejects.toMatchObject({ code: 'file-unreadable' });
});
