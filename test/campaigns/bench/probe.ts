/**
 * Loaded into the agent by `NODE_OPTIONS=--import`, in runs of their own: how late its event loop came while it
 * installed, and when it wrote, flushed and read back. Writes a ProbeReport to $BENCH_PROBE_REPORT at the end.
 */
import { writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';
import { isMainThread } from 'node:worker_threads';

/** All in milliseconds. */
export interface ProbeReport {
  /** From the first block on; the timer's own millisecond is in it. */
  readonly delayMedian: number;
  readonly delayP99: number;
  readonly delayMax: number;
  readonly writing: number;
  readonly flushing: number;
  readonly readingBack: number;
}

/** Smaller accesses are the journal's, or ask whether a block is there already. */
const blockBytes = 256 * 1024;

class Span {
  from = Infinity;
  to = NaN;

  async over<T>(work: Promise<T>): Promise<T> {
    this.from = Math.min(this.from, performance.now());
    const result = await work;
    this.to = performance.now();
    return result;
  }
}

type Method = (...args: unknown[]) => Promise<unknown>;

async function watch(reportPath: string): Promise<void> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const [writing, readingBack] = [new Span(), new Span()];
  let flushing = new Span();
  await using handle = await open('/dev/null');
  const fileHandle = Object.getPrototypeOf(handle) as Record<string, Method>;
  const moves = (args: readonly unknown[]): boolean => (args[0] as Uint8Array).byteLength >= blockBytes;
  wrap(fileHandle, 'write', async (write, args) => {
    if (!moves(args)) return write();
    if (writing.from === Infinity) delay.enable();
    return writing.over(write());
  });
  wrap(fileHandle, 'read', async (read, args) => (moves(args) ? readingBack.over(read()) : read()));
  wrap(fileHandle, 'sync', async (sync) => {
    if (readingBack.from !== Infinity) return sync();
    flushing = new Span();
    return flushing.over(sync());
  });
  process.on('exit', () => {
    if (writing.from === Infinity) return; // a child of the agent
    const report: ProbeReport = {
      delayMedian: delay.percentile(50) / 1e6,
      delayP99: delay.percentile(99) / 1e6,
      delayMax: delay.max / 1e6,
      writing: writing.to - writing.from,
      flushing: flushing.to - flushing.from,
      readingBack: readingBack.to - readingBack.from,
    };
    writeFileSync(reportPath, JSON.stringify(report));
  });
}

function wrap(
  object: Record<string, Method>,
  name: string,
  around: (call: () => Promise<unknown>, args: readonly unknown[]) => Promise<unknown>,
): void {
  const original = object[name];
  if (original === undefined) throw new Error(`a file handle has no ${name}`);
  object[name] = async function wrapped(this: unknown, ...args) {
    return around(async () => original.apply(this, args), args);
  };
}

const reportPath = process.env['BENCH_PROBE_REPORT'];
if (reportPath !== undefined && isMainThread) await watch(reportPath);
