import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import { openReport } from '../cli/report/open-report.ts';

const run = promisify(execFile);
/** `nobody`; without the rights of root the command stays who it is. */
const us = process.getuid?.() ?? 0;
const agentUser = us === 0 ? 65_534 : us;

let stack: AsyncDisposableStack;
let gateway: FileGateway;
/** Of root alone, as its home is. */
let home: string;
let file: string;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  const image = Buffer.from('healthy 0');
  const options = { serviceUrl: 'http://127.0.0.1:9', image, slotBytes: 1024 * 1024, agentUser };
  gateway = stack.use(await FileGateway.create(options));
  home = await mkdtemp(join(tmpdir(), 'home-'));
  stack.defer(async () => rm(home, { recursive: true, force: true }));
  file = join(home, 'gw.tar.gz');
});
afterEach(async () => {
  await stack.disposeAsync();
});

/** The end of `agent report` where journalctl is a script; `$folder` is one that the agent may write to. */
async function report(words: readonly string[], journalctl: string) {
  const bin = join(gateway.directory, 'bin');
  await mkdir(bin, { recursive: true });
  const script = `#!/bin/sh\nfolder='${gateway.directory}/run'\n${journalctl}\n`;
  await writeFile(join(bin, 'journalctl'), script, { mode: 0o755 });
  const child = gateway.spawn(['report', ...words], 'pipe', { PATH: `${bin}:${process.env['PATH'] ?? ''}` });
  const [err, [exitCode, signal]] = await Promise.all([
    child.stderr?.setEncoding('utf8').toArray(),
    once(child, 'close') as Promise<[number | null, string | null]>,
  ]);
  return { exitCode, signal, err: (err ?? []).join('') };
}

// Seen: the command had given up root's rights before it wrote, and failed at its end with EACCES.
test('without a daemon a report lies where root alone may write, and the agent’s user gathered it', async () => {
  await writeFile(file, 'precious');
  expect(await gateway.run('report', file)).toMatchObject({ exitCode: 77 });
  expect(await readFile(file, 'utf8')).toBe('precious');
  expect(await report([file, '--overwrite'], 'id -u')).toEqual({ exitCode: 0, signal: null, err: '' });
  expect(await stat(file)).toMatchObject({ uid: us, mode: 0o100_600 });
  expect(await readdir(home)).toEqual(['gw.tar.gz']);
  expect((await openReport(file))['log.txt']).toBe(`${agentUser}\n`);
});

test('nothing is left of a report whose command is killed, nor of its writer', async () => {
  const ended = await report([file], 'pgrep -P $PPID >$folder/pids; kill -KILL $PPID');
  expect(ended).toMatchObject({ signal: 'SIGKILL' });
  const pids = (await readFile(join(gateway.directory, 'run/pids'), 'utf8')).trim().split('\n');
  expect(pids.length).toBe(us === 0 ? 2 : 1); // the writer, and the script
  await Promise.all(pids.map(async (pid) => run('tail', [`--pid=${pid}`, '--follow', '/dev/null'])));
  expect(await readdir(home)).toEqual([]);
});

test('root writes nothing where the agent’s user can put a link in the place of a folder', async () => {
  const folder = join(gateway.directory, 'run/mine');
  await mkdir(folder);
  await chmod(folder, 0o777);
  const path = join(folder, 'gw.tar.gz');
  expect(await gateway.run('report', path)).toMatchObject({ exitCode: 0 });
  expect((await stat(path)).uid).toBe(agentUser);
});
