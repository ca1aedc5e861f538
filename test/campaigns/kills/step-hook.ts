import childProcess from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { writeSync } from 'node:fs';
import promises from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import process from 'node:process';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded into the real program (`NODE_OPTIONS=--import=…`): counts the steps that leave a mark on the machine, each just
 * before it is made (files opened for writing, written, flushed, renamed; programs started and ended), and makes the
 * program strike itself down before one of them.
 */
const { STEP_TO_DIE_AT: fatal = '', STEP_SIGNAL: signal = 'SIGKILL' } = process.env;

let count = 0;

function step(name: string): void {
  if (!isMainThread) return;
  count += 1;
  if (String(count) !== fatal) return;
  writeSync(process.stderr.fd, `step ${count}: ${name}\n`);
  process.kill(process.pid, signal);
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Puts `name` of each call before the call. */
function announce(owner: object, method: string, name: (self: unknown, args: readonly unknown[]) => string): void {
  const methods = owner as Record<string, Method>;
  const original = methods[method];
  if (original === undefined) throw new Error(`there is no ${method} to announce`);
  methods[method] = function announced(...args) {
    step(name(this, args));
    return original.apply(this, args);
  };
}

const paths = new WeakMap<object, string>();

function announceFiles(fileHandle: object): void {
  const { open } = promises;
  promises.open = async (...args): Promise<FileHandle> => {
    const [path, flags] = args;
    if (flags === 'w') step(`open ${String(path)}`);
    const handle = await open(...args);
    paths.set(handle, String(path));
    return handle;
  };
  const ofHandle = (verb: string) => (self: unknown) => `${verb} ${paths.get(self as object) ?? '?'}`;
  announce(fileHandle, 'write', ofHandle('write'));
  announce(fileHandle, 'writeFile', ofHandle('write'));
  announce(fileHandle, 'sync', ofHandle('flush'));
  announce(fileHandle, 'datasync', ofHandle('flush'));
  announce(promises, 'rename', (_, [, to]) => `rename to ${String(to)}`);
  announce(promises, 'rm', (_, [path]) => `remove ${String(path)}`);
}

function announcePrograms(): void {
  const spawn = childProcess.spawn as (...args: unknown[]) => ChildProcess;
  childProcess.spawn = ((file: string, args: readonly string[], ...more: unknown[]) => {
    const name = [file, ...args].join(' ');
    const isQuestion = args[0]?.startsWith('get-') === true;
    if (!isQuestion) step(`start ${name}`);
    const child = spawn(file, args, ...more);
    if (!isQuestion) child.once('exit', () => step(`end ${name}`));
    return child;
  }) as typeof childProcess.spawn;
}

const probe = await promises.open('/dev/null');
announceFiles(Object.getPrototypeOf(probe) as object);
await probe.close();
announcePrograms();
syncBuiltinESMExports();
