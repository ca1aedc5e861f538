import { readdirSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

import { systemErrorCode } from '../../../src/system/errors.ts';

const PATIENCE_MS = 10_000;
const LOOK_AGAIN_MS = 2;

/**
 * Every process of one gateway, with the agent's child processes and orphans: identified by a word in their
 * environment, so that none is missed whichever its parent is now.
 */
export class GatewayProcesses {
  readonly #mark: string;

  /** `assignment`: the variable that is in the environment of each of them and of no other process. */
  constructor(assignment: string) {
    this.#mark = assignment;
  }

  /** Sends SIGSTOP to all threads of all of them; returns when they have all stopped. */
  async freeze(): Promise<void> {
    await this.#until(() => {
      const pids = this.#find();
      const stopped = new Set(pids.filter((pid) => 'TtZX'.includes(statOf(pid).state)));
      // After a fork, the parent waits uninterruptibly for the child to start its program (vfork(2)).
      const waiting = new Set([...stopped].map((pid) => statOf(pid).parent));
      const moving = pids.filter((pid) => !stopped.has(pid) && !(waiting.has(pid) && statOf(pid).state === 'D'));
      for (const pid of moving) unlessGone(() => process.kill(pid, 'SIGSTOP'));
      return moving.length === 0;
    });
  }

  /** Returns when they are gone, and everything that they had open is closed. */
  async kill(): Promise<void> {
    const killed = new Set<number>();
    await this.#until(() => {
      for (const pid of this.#find()) {
        killed.add(pid);
        unlessGone(() => process.kill(pid, 'SIGKILL'));
      }
      return [...killed].every((pid) => hasReleased(pid));
    });
  }

  #find(): readonly number[] {
    const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return numbers.map(Number).filter((pid) => this.#isMarked(pid));
  }

  #isMarked(pid: number): boolean {
    const environment = unlessGone(() => readFileSync(`/proc/${pid}/environ`, 'latin1')) ?? '';
    return environment.split('\0').includes(this.#mark);
  }

  async #until(isDone: () => boolean): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    while (!isDone()) {
      if (performance.now() > deadline) throw new Error(`processes with ${this.#mark} do not obey`);
      await sleep(LOOK_AGAIN_MS);
    }
  }
}

/** True if the process is gone, except for a last thread whose status was not collected. */
function hasReleased(pid: number): boolean {
  const threads = unlessGone(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  return threads.length === 0 || (threads.length === 1 && 'ZX'.includes(statOf(pid).state));
}

/** Returns the state in /proc/PID/stat (proc(5)): R, S, D, T (stopped), t, Z (zombie), X (gone); and the parent. */
export function statOf(pid: number): { readonly state: string; readonly parent: number } {
  const stat = unlessGone(() => readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? ') X 0';
  const [state = 'X', parent = '0'] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state, parent: Number(parent) };
}

/** Also returns undefined for a process of another user. */
function unlessGone<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if (['ESRCH', 'ENOENT', 'EACCES'].includes(systemErrorCode(error) ?? '')) return undefined;
    throw error;
  }
}
