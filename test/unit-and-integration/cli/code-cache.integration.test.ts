import { execFile } from 'node:child_process';
import { chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { agentVersion } from '../../../src/version.ts';
import { builtTree } from '../../fakes/machine/built-agent.ts';

const run = promisify(execFile);
const OTHER_VERSION = agentVersion.replaceAll(/\d/g, '7');

let folder: string;
let cache: string;
/** The same program with another version of the same length: V8 accepts its code for ours. */
let other: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'code-cache-'));
  const tree = builtTree();
  if (tree === undefined) throw new Error('no program was built');
  other = join(folder, 'other');
  await cp(tree, other, { recursive: true, filter: (path) => !path.endsWith('/bin/node') });
  await symlink(join(tree, 'bin/node'), join(other, 'bin/node'));
  for (const name of await readdir(join(other, 'lib'))) {
    if (!name.endsWith('.js')) continue;
    const path = join(other, 'lib', name);
    await writeFile(path, (await readFile(path, 'latin1')).replaceAll(agentVersion, OTHER_VERSION), 'latin1');
  }
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

/** Code of the other program is in the cache: a process that reads it shows the other version. */
beforeEach(async () => {
  cache = await mkdtemp(join(folder, 'cache-'));
  if ((await version(other)) !== OTHER_VERSION) throw new Error('the other program is not another one');
});

async function version(tree = builtTree() ?? ''): Promise<string> {
  const env = { PATH: process.env['PATH'], HOME: folder, CACHE_DIRECTORY: cache };
  const { stdout } = await run(join(tree, 'agent'), ['--version'], { env });
  return stdout.trim().replace('agent ', '');
}

async function codeFolder(): Promise<string> {
  const [name = ''] = await readdir(cache);
  return join(cache, name);
}

async function entries(): Promise<readonly string[]> {
  const place = await codeFolder();
  return (await readdir(place)).map((name) => join(place, name));
}

test('runs the code that an earlier run compiled, and writes it once', async () => {
  const written = await Promise.all((await entries()).map(async (path) => (await stat(path)).mtimeMs));
  expect(await version()).toBe(OTHER_VERSION);
  const after = await Promise.all((await entries()).map(async (path) => (await stat(path)).mtimeMs));
  expect(after).toEqual(written);
});

const eachFile = async (change: (path: string) => Promise<void>): Promise<void> => {
  for (const path of await entries()) await change(path);
};

test.each<{ what: string; change: () => Promise<void> }>([
  {
    what: 'is damaged in one byte',
    change: async () =>
      eachFile(async (path) => {
        const bytes = await readFile(path);
        bytes[bytes.byteLength >> 1] = (bytes[bytes.byteLength >> 1] ?? 0) ^ 1;
        await writeFile(path, bytes);
      }),
  },
  { what: 'is cut short', change: async () => eachFile(async (path) => writeFile(path, 'code')) },
  {
    what: 'was compiled for another V8',
    change: async () =>
      eachFile(async (path) => {
        const { crc32 } = await import('node:zlib');
        const data = Buffer.from('not of this V8: '.repeat(64));
        const header = Buffer.alloc(8);
        header.writeUInt32LE(crc32(data));
        await writeFile(path, Buffer.concat([header, data]));
      }),
  },
  { what: 'belongs to another user', change: async () => eachFile(async (path) => chown(path, 65_534, 65_534)) },
  { what: 'may be changed by a group', change: async () => eachFile(async (path) => chmod(path, 0o660)) },
  {
    what: 'is a link',
    change: async () =>
      eachFile(async (path) => {
        await cp(path, `${path}.target`);
        await rm(path);
        await symlink(`${path}.target`, path);
      }),
  },
  { what: 'is in a directory of another user', change: async () => chown(await codeFolder(), 65_534, 65_534) },
  { what: 'is in a directory that all may change', change: async () => chmod(await codeFolder(), 0o777) },
])('compiles again if the code $what, and replaces it', async ({ change }) => {
  await change();
  expect(await version()).toBe(agentVersion);
  expect(await version()).toBe(agentVersion);
  expect(await version(other)).toBe(agentVersion); // what it reads is ours
});

test('removes what other builds kept, and nothing else', async () => {
  for (const name of ['code-0123456789abcdef-daemon', 'kept']) await mkdir(join(cache, name));
  await rm(await codeFolder(), { recursive: true });
  await version();
  const [, mine, ...rest] = [undefined, ...(await readdir(cache)).sort()];
  expect([mine, rest]).toEqual([expect.stringMatching(/^code-[0-9a-f]{16}-command$/), ['kept']]);
});

test.each([
  { what: 'that is a file', place: async () => (await rm(cache, { recursive: true }), await writeFile(cache, '')) },
  // Regression: the daemon never ended, since mkdir -p of Node retries forever if a directory accepts no entries.
  { what: 'that takes no entries', place: async () => void (cache = '/proc') },
  { what: 'that is not there yet', place: async () => void (cache = join(cache, 'new/cache')) },
])('starts and ends with a place for compiled code $what', async ({ place }) => {
  await place();
  expect(await version()).toBe(agentVersion);
});
