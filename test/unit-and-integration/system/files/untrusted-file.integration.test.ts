import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { OutsideFileError, openRegularFile, readUntrustedFile } from '../../../../src/system/files/untrusted-file.ts';

let folder = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'outside-'));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  writeFileSync(join(folder, 'file'), 'x'.repeat(10_000));
  symlinkSync('/dev/zero', join(folder, 'link'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const small = { maxBytes: 100_000 };

test('a file is read completely, also one of the kernel, whose size appears as zero', async () => {
  expect((await readUntrustedFile(join(folder, 'file'), small)).toString()).toBe('x'.repeat(10_000));
  expect((await readUntrustedFile('/proc/self/status', small)).toString()).toContain('VmHWM');
});

test('a file that is too long is refused, or cut where that is wanted', async () => {
  const path = join(folder, 'file');
  await expect(readUntrustedFile(path, { maxBytes: 9_999 })).rejects.toThrow('it is longer than 9999 bytes');
  expect(await readUntrustedFile(path, { maxBytes: 10_000 })).toHaveLength(10_000);
  expect(await readUntrustedFile(path, { maxBytes: 9_999, longer: 'cut' })).toHaveLength(9_999);
});

test.each(['pipe', 'link', '.'])('rejects anything but a regular file without opening it: %s', async (name) => {
  for (let turn = 0; turn < 8; turn += 1) {
    await expect(readUntrustedFile(join(folder, name), small)).rejects.toThrow('it is not a regular file');
  }
});

/** An open with O_WRONLY succeeds as soon as the pipe is open for reading. */
test('a pipe is never opened: a writer that waits for a reader continues to wait', async () => {
  const path = join(folder, 'pipe');
  const writer = `import { openSync, constants } from 'node:fs';
    const until = performance.now() + 500; let seen = false;
    while (performance.now() < until) { try { openSync(${JSON.stringify(path)}, constants.O_WRONLY | constants.O_NONBLOCK); seen = true; break; } catch (error) { if (error.code !== 'ENXIO') throw error; } }
    process.exit(seen ? 1 : 0);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', writer]);
  while (child.exitCode === null)
    await expect(readUntrustedFile(path, small)).rejects.toThrow('it is not a regular file');
  expect(child.exitCode).toBe(0);
});

test('an unreadable or missing file is named with the given path', async () => {
  const path = join(folder, 'absent');
  await expect(readUntrustedFile(path, small)).rejects.toMatchObject({
    code: 'ENOENT',
    message: expect.stringContaining(path) as unknown,
  });
});

// Regression in a chroot: an existing configuration was called missing, and a journal would have been replaced by a new
// one.
test('a missing /proc is reported, and a file is not considered missing', () => {
  const module = join(import.meta.dirname, '../../../../src/system/files/durable-file.ts');
  const script = `const { readTextFile } = await import(${JSON.stringify(module)});
    for (const name of ['file', 'absent'])
      console.log(await readTextFile(${JSON.stringify(folder)} + '/' + name).catch(({ code, message }) => code + ': ' + message));`;
  const inside = ['sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh'];
  const node = [process.execPath, '--input-type=module', '--eval', script];
  const said = execFileSync('unshare', ['--mount', ...inside, ...node], { encoding: 'utf8' });
  expect(said).toMatch(/^state-unavailable: cannot read .*\/file: \/proc is not mounted\nundefined\n$/);
});

test('unresponsive files delay only other readers of such files, up to their deadline', async () => {
  const hanging = Promise.withResolvers<FileHandle>();
  const hang = { maxBytes: 10, timeoutMs: 10, open: async () => hanging.promise };
  const late = await Promise.allSettled([1, 2, 3, 4, 5, 6].map(async () => readUntrustedFile('/x', hang)));
  for (const { status } of late) expect(status).toBe('rejected');
  await expect(readUntrustedFile(join(folder, 'file'), { ...small, timeoutMs: 10 })).rejects.toThrow(OutsideFileError);
  expect((await stat(folder)).isDirectory()).toBe(true); // the others of libuv's threads are free
  hanging.resolve(await openRegularFile(join(folder, 'file')));
  await expect
    .poll(async () =>
      readUntrustedFile(join(folder, 'file'), small).then(
        ({ length }) => length,
        () => 0,
      ),
    )
    .toBe(10_000);
});
