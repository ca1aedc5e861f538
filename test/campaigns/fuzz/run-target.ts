import { readdirSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { findTarget } from './targets.ts';

/** The child's side: one target, for some seconds; its parent (fuzz.ts) looks after it. */
export type Message =
  | { readonly kind: 'alive'; readonly cases: number }
  | {
      readonly kind: 'done';
      readonly cases: number;
      readonly failure: string | undefined;
      readonly peakRssMiB: number;
      /** Descriptors that were not there before. */
      readonly leftOpen: number;
    };

const ALIVE_EVERY_MS = 200;
/** After a failure, to make the case small. */
const SHRINKING_MS = 20_000;
const CLOSING_MS = 10_000;

async function main([name = '', seconds = '1', seed = '0']: readonly string[]): Promise<void> {
  const target = await findTarget(name);
  const before = openDescriptors();
  let cases = 0;
  let toldMs = performance.now();
  const onCase = async (): Promise<void> => {
    cases += 1;
    if (performance.now() < toldMs + ALIVE_EVERY_MS) return;
    toldMs = performance.now();
    tell({ kind: 'alive', cases });
    await nextTurn();
  };
  let failure: string | undefined;
  {
    await using opened = await target.open();
    const parameters = {
      seed: Number(seed),
      numRuns: Number.MAX_SAFE_INTEGER,
      timeout: target.maxCaseMs ?? 5_000,
      markInterruptAsFailure: false,
    };
    const limit = { interruptAfterTimeLimit: Number(seconds) * 1000 };
    let details = await opened.check({ ...parameters, ...limit }, onCase);
    // fast-check calls a run failed, too, that its time limit ended within the first case: that case is played whole.
    if (isInterruptedOnly(details)) details = await opened.check({ ...parameters, numRuns: 1 }, onCase);
    if (details.failed) {
      const path = details.counterexamplePath ?? '';
      const again = await opened.check({ ...parameters, path, interruptAfterTimeLimit: SHRINKING_MS }, onCase);
      if (again.failed && !isInterruptedOnly(again)) details = again;
      failure = describe(details);
    }
  }
  // Programs that were ended in the last case close their pipes a little later.
  for (const until = performance.now() + CLOSING_MS; openDescriptors() > before && performance.now() < until;) {
    await nextTurn();
  }
  const leftOpen = openDescriptors() - before;
  tell({ kind: 'done', cases, failure, peakRssMiB: peakRssMiB(), leftOpen });
}

function isInterruptedOnly(details: { readonly failed: boolean; readonly counterexamplePath: string | null }): boolean {
  return details.failed && details.counterexamplePath === null;
}

function describe(details: {
  readonly counterexample: unknown;
  readonly counterexamplePath: string | null;
  readonly errorInstance: unknown;
}): string {
  const { errorInstance: error } = details;
  const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return `path ${details.counterexamplePath}\n${shown(details.counterexample)}\n${why}`;
}

function shown(value: unknown): string {
  return JSON.stringify(value, function spell(this: Readonly<Record<string, unknown>>, key, part: unknown) {
    const bytes = this[key]; // a Buffer has spelled itself in the part already
    return bytes instanceof Uint8Array ? `base64:${Buffer.from(bytes).toString('base64')}` : part;
  }).slice(0, 4000);
}

function tell(message: Message): void {
  process.send?.(message);
}

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

/** VmHWM of proc(5), /proc/pid/status. */
function peakRssMiB(): number {
  const kib = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  return Math.round(Number(kib) / 1024);
}

await main(process.argv.slice(2));
process.disconnect();
