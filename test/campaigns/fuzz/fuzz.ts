import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

import type { Message } from './run-target.ts';
import type { FuzzTarget } from './target.ts';

export interface FuzzOptions {
  readonly seconds: number;
  readonly seed: number;
  /** Targets at a time. */
  readonly atATime: number;
  readonly onResult?: (result: FuzzResult) => void;
}

export interface FuzzResult {
  readonly target: string;
  readonly seed: number;
  readonly cases: number;
  readonly peakRssMiB: number;
  /** The violated invariant, if any. */
  readonly failure: string | undefined;
}

const DEFAULT_CASE_MS = 5_000;
const DEFAULT_RSS_MIB = 512;
/** Resources that libraries keep for the rest of a process. */
const MOST_LEFT_OPEN = 5;
const LOOK_EVERY_MS = 250;
/** Until the first case, on a busy machine. */
const STARTING_MS = 40_000;
/** Factor for a machine under other load. */
const PATIENCE = 4;

/** Each target in a process of its own, so that a hang, a crash and memory beyond the bound are seen from outside. */
export async function fuzz(targets: readonly FuzzTarget[], options: FuzzOptions): Promise<readonly FuzzResult[]> {
  const left = [...targets];
  const results: FuzzResult[] = [];
  const work = async (): Promise<void> => {
    for (let target = left.shift(); target !== undefined; target = left.shift()) {
      const result = await fuzzTarget(target, options);
      results.push(result);
      options.onResult?.(result);
    }
  };
  await Promise.all(Array.from({ length: options.atATime }, work));
  return results;
}

async function fuzzTarget(target: FuzzTarget, { seconds, seed }: FuzzOptions): Promise<FuzzResult> {
  const script = join(import.meta.dirname, 'run-target.ts');
  const child = spawn(
    process.execPath,
    ['--max-old-space-size=256', script, target.name, String(seconds), String(seed)],
    {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    },
  );
  const watch = new Watch(child, target);
  const timer = setInterval(() => watch.look(), LOOK_EVERY_MS);
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  clearInterval(timer);
  const { cases, done } = watch;
  const failure =
    watch.failure ?? (done === undefined ? `it died (${code ?? signal}):\n${watch.output}` : verdict(done));
  return { target: target.name, seed, cases, peakRssMiB: done?.peakRssMiB ?? watch.rssMiB, failure };
}

type Done = Extract<Message, { kind: 'done' }>;

function verdict({ failure, leftOpen }: Done): string | undefined {
  if (failure !== undefined) return failure;
  return leftOpen > MOST_LEFT_OPEN ? `${leftOpen} descriptors were left open` : undefined;
}

/** The parent's record of a child. */
class Watch {
  readonly #child: ChildProcess;
  readonly #target: FuzzTarget;
  #aliveAtMs = performance.now() + STARTING_MS;
  cases = 0;
  rssMiB = 0;
  output = '';
  done: Done | undefined;
  failure: string | undefined;

  constructor(child: ChildProcess, target: FuzzTarget) {
    this.#child = child;
    this.#target = target;
    child.on('message', (message: Message) => {
      this.#aliveAtMs = performance.now();
      this.cases = message.cases;
      if (message.kind === 'done') this.done = message;
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => (this.output = (this.output + text).slice(-4000)));
    }
  }

  look(): void {
    const { maxCaseMs = DEFAULT_CASE_MS, maxRssMiB = DEFAULT_RSS_MIB } = this.#target;
    const silentMs = performance.now() - this.#aliveAtMs;
    this.rssMiB = Math.max(this.rssMiB, rssMiBOf(this.#child.pid));
    if (silentMs > PATIENCE * maxCaseMs) this.#end(`it hangs in case ${this.cases} or a few later`);
    if (this.rssMiB > maxRssMiB) this.#end(`it has ${this.rssMiB} MiB, after case ${this.cases}`);
  }

  #end(failure: string): void {
    this.failure ??= failure;
    this.#child.kill('SIGKILL');
  }
}

/** Rss of proc(5), /proc/pid/statm, in pages of 4 KiB; 0 once it is gone. */
function rssMiBOf(pid: number | undefined): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]) / 256;
  } catch (error) {
    if (error instanceof Error && 'code' in error) return 0;
    throw error;
  }
}

export function describeResult({ target, cases, peakRssMiB, failure }: FuzzResult): string {
  const verdict = failure === undefined ? 'ok' : `FAILED: ${failure}`;
  return `${target.padEnd(20)} ${String(cases).padStart(9)} cases, peak ${peakRssMiB.toFixed(0)} MiB: ${verdict}`;
}
