import type { ChildProcess } from 'node:child_process';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** How a process with a queue ends, and the content that the next one finds. */
export interface Death extends Disposable {
  readonly queuePath: string;
  /** Resolves when the next one may begin. */
  strike(child: ChildProcess): Promise<void>;
}

/** `kill -9`: whatever it gave to the kernel is there. */
export class Killing implements Death {
  readonly queuePath: string;

  constructor(directory: string) {
    this.queuePath = join(directory, 'queue.db');
  }

  async strike(child: ChildProcess): Promise<void> {
    await kill(child);
  }

  [Symbol.dispose](): void {}
}

const quietMs = 5;

/**
 * A power loss: data that had not reached the medium is lost. The medium is ext4 on a loop device; the process is
 * frozen, the file behind the device is copied, and the next one continues with the copy. Requires root.
 */
export class PowerCut implements Death {
  readonly queuePath: string;
  readonly #directory: string;
  readonly #mount: string;
  #cuts = 0;

  constructor(directory: string, sizeMib = 256) {
    this.#directory = directory;
    this.#mount = join(directory, 'mount');
    this.queuePath = join(this.#mount, 'queue.db');
    mkdirSync(this.#mount);
    run('truncate', '-s', `${sizeMib}M`, this.#image);
    run('mkfs.ext4', '-q', this.#image);
    this.#plugIn();
  }

  async strike(child: ChildProcess): Promise<void> {
    child.kill('SIGSTOP');
    while (!isFrozen(child.pid ?? 0)) await delay(1);
    const [before, device] = [this.#image, basename(run('findmnt', '-no', 'SOURCE', this.#mount).trim())];
    this.#cuts += 1;
    // the kernel may still be writing the process's data: a medium fails at one moment
    for (let seen = ''; seen !== trafficOf(device);) {
      seen = await calm(device);
      run('cp', '--sparse=always', before, this.#image);
    }
    await kill(child);
    run('umount', this.#mount);
    rmSync(before);
    this.#plugIn();
  }

  [Symbol.dispose](): void {
    run('umount', this.#mount);
  }

  get #image(): string {
    return join(this.#directory, `medium-${this.#cuts}`);
  }

  #plugIn(): void {
    run('mount', '-o', 'loop,noatime,commit=3600', this.#image, this.#mount);
  }
}

function run(program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, { encoding: 'utf8' });
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** All its threads stand still, or it has ended: proc_pid_stat(5). */
function isFrozen(pid: number): boolean {
  try {
    const states = readdirSync(`/proc/${pid}/task`).map(
      (thread) => /\) (\w)/.exec(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'))?.[1],
    );
    return states.every((state) => state === 'T' || state === 'Z');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return true;
    throw error;
  }
}

/** Documentation/block/stat.rst in the kernel: completed requests, and those in flight. */
function trafficOf(device: string): string {
  return readFileSync(`/sys/block/${device}/stat`, 'utf8');
}

async function calm(device: string): Promise<string> {
  for (let seen = trafficOf(device); ;) {
    await delay(quietMs);
    const now = trafficOf(device);
    if (now === seen) return now;
    seen = now;
  }
}
