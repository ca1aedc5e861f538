import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { statOf } from './processes.ts';

/** When the agent is struck down. */
export type Trigger =
  /** Just before the step with this number that leaves a mark on the machine (step-hook.ts). */
  | { readonly kind: 'step'; readonly number: number }
  /** As soon as the journal's change with this number is on the disk. */
  | { readonly kind: 'journal'; readonly change: number }
  /** The same of the boot environment. */
  | { readonly kind: 'boot'; readonly change: number }
  | { readonly kind: 'moment'; readonly afterMs: number };

/** The aftermath for the machine. `restart`: only the agent was killed; its child processes may still run. */
export type Aftermath = 'restart' | 'reboot' | 'power-cut';

export interface Strike {
  readonly trigger: Trigger;
  readonly aftermath: Aftermath;
}

export interface RunEnd {
  /**
   * The kill, or undefined if the agent ended normally. The agent is dead, except after a power loss: then it runs or
   * is stopped.
   */
  readonly struck: Strike | undefined;
  readonly exitCode: number | null;
  readonly output: string;
}

export interface RunOptions {
  readonly args: readonly string[];
  readonly strike?: Strike | undefined;
  /** Stops the agent once this returns true for a line of the log. */
  readonly isEnough?: ((line: string) => boolean) | undefined;
}

const RUN_DEADLINE_MS = 60_000;
const LOOK_AGAIN_MS = 2;

/** Runs the real program until it exits or is killed. */
export async function runAgent(gateway: FileGateway, options: RunOptions): Promise<RunEnd> {
  const { args, strike, isEnough } = options;
  using over = overAtTheEnd();
  const due = strike === undefined ? undefined : whenDue(gateway, strike.trigger, over.signal);
  const child = gateway.spawn(args, 'pipe', hookEnvironment(options));
  const output = keepOutput(child, isEnough);
  const ended = once(child, 'close').then(() => 'ended' as const);
  const stuck = sleep(RUN_DEADLINE_MS, 'stuck' as const, { signal: over.signal }).catch(() => 'ended' as const);
  const first = await Promise.race([ended, stuck, frozen(child, over.signal), ...(due === undefined ? [] : [due])]);
  if (first === 'stuck') {
    child.kill('SIGKILL');
    throw new Error(`agent ${args.join(' ')} did not end within ${RUN_DEADLINE_MS} ms:\n${output()}`);
  }
  if (first === 'due' && strike?.aftermath === 'power-cut') return { struck: strike, exitCode: null, output: output() };
  if (first === 'due') child.kill('SIGKILL');
  await ended;
  const struck = child.signalCode === 'SIGKILL' ? strike : undefined;
  return { struck, exitCode: child.exitCode, output: output() };
}

function overAtTheEnd(): Disposable & { readonly signal: AbortSignal } {
  const over = new AbortController();
  return { signal: over.signal, [Symbol.dispose]: () => over.abort() };
}

function hookEnvironment({ strike }: RunOptions): Readonly<Record<string, string>> {
  if (strike?.trigger.kind !== 'step') return {};
  const { trigger, aftermath } = strike;
  return {
    NODE_OPTIONS: `--import=${join(import.meta.dirname, 'step-hook.ts')}`,
    STEP_TO_DIE_AT: String(trigger.number),
    STEP_SIGNAL: aftermath === 'power-cut' ? 'SIGSTOP' : 'SIGKILL',
  };
}

async function whenDue({ directory }: FileGateway, trigger: Trigger, over: AbortSignal): Promise<'due'> {
  const reached = Promise.withResolvers<'due'>();
  const strike = (): void => reached.resolve('due');
  switch (trigger.kind) {
    case 'step':
      break; // the hook strikes
    case 'journal':
      onReplaced(join(directory, 'state/journal.json'), countdown(trigger.change, strike), over);
      break;
    case 'boot':
      onReplaced(join(directory, 'boot/environment'), countdown(trigger.change, strike), over);
      break;
    case 'moment': {
      const timer = setTimeout(strike, trigger.afterMs);
      over.addEventListener('abort', () => clearTimeout(timer), { once: true });
    }
  }
  return reached.promise;
}

function onReplaced(path: string, listener: () => void, over: AbortSignal): void {
  watch(dirname(path), { signal: over }, (event, changed) => {
    if (event === 'rename' && changed === basename(path)) listener();
  });
}

function countdown(count: number, atZero: () => void): () => void {
  let left = count;
  return () => {
    left -= 1;
    if (left === 0) atZero();
  };
}

/** For a power cut the hook stops the program; nothing tells its parent. */
async function frozen(child: ChildProcess, over: AbortSignal): Promise<'due' | 'ended'> {
  while (!over.aborted) {
    if (statOf(child.pid ?? 0).state === 'T') return 'due';
    await sleep(LOOK_AGAIN_MS);
  }
  return 'ended';
}

function keepOutput(child: ChildProcess, isEnough: (line: string) => boolean = () => false): () => string {
  let text = '';
  let seen = 0;
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      if (stream === child.stdout) return;
      const lines = text.split('\n');
      const enough = lines.slice(seen, -1).some((line) => isEnough(line));
      seen = lines.length - 1;
      if (enough) child.kill('SIGTERM');
    });
  }
  return () => text;
}
