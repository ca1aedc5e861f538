import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, describe, expect, test } from 'vitest';

import { findImageVersion, versionInFile } from '../../../../src/system/device/image-version.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const run = promisify(execFile);
const unset = { factoryVersion: undefined, factoryVersionFile: undefined };

let folder: string;
beforeEach(() => {
  folder = folderUntilTestEnds();
});

async function put(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}

describe('the version of an image', () => {
  test('prefers the configured one, then the configured file’s, then os-release’s', async () => {
    const release = await put('os-release', 'ID=debian\nVERSION_ID="12"\nIMAGE_VERSION="1.4.0"\n');
    const file = await put('version', '1.5.0\n');
    const both = { factoryVersion: ' 1.6.0 ', factoryVersionFile: file };
    expect(await findImageVersion(both, silentLog, [release])).toBe('1.6.0');
    expect(await findImageVersion({ ...unset, factoryVersionFile: file }, silentLog, [release])).toBe('1.5.0');
    expect(await findImageVersion(unset, silentLog, [join(folder, 'missing'), release])).toBe('1.4.0');
  });

  test('is not the distribution’s', async () => {
    const release = await put('os-release', 'ID=debian\nVERSION_ID="12"\n');
    expect(await findImageVersion(unset, silentLog, [release])).toBeUndefined();
  });

  test('is not waited for in a pipe, nor read from what is large or not there', async () => {
    const pipe = join(folder, 'pipe');
    await run('mkfifo', [pipe]);
    const large = await put('large', `IMAGE_VERSION=1\n${' '.repeat(70_000)}`);
    for (const path of [pipe, large, folder, join(folder, 'missing')]) {
      expect(await findImageVersion({ ...unset, factoryVersionFile: path }, silentLog)).toBeUndefined();
    }
  });
});

test.each([
  ['1.4.0\n', '1.4.0'],
  ['  release 7 \nbuilt yesterday\n', 'release 7'],
  ['VERSION_ID="2.0"\n', '2.0'],
  ["NAME=x\nIMAGE_VERSION='3.1'\nVERSION_ID=2\n", '3.1'],
  ['IMAGE_VERSION="a \\"b\\" \\$c"\n', 'a "b" $c'],
  ['IMAGE_VERSION=""\nVERSION_ID=5\n', '5'],
  ['', undefined],
  ['\n1.4.0\n', undefined],
  ['x'.repeat(201), undefined],
  ['NAME=only\n', undefined],
])('a file that says %j names %j', (text, version) => {
  expect(versionInFile(text)).toBe(version);
});
