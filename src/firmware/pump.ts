import type { Writable } from 'node:stream';

import type { AgentError } from '../system/errors.ts';
import { giveBack } from '../system/files/give-back.ts';
import type { BlockSource } from './block-source.ts';
import { FirmwareError } from './errors.ts';

/** Longest silence of a machine that has work to do, while its output is waited for. */
const SILENCE_MS = 60_000;

/** Something that turns bytes into others, outside of this thread. */
export interface Machine {
  /** Names it for a person. */
  readonly name: string;
  readonly input: Writable;
  readonly output: AsyncIterable<Uint8Array>;
  /** How much of its input it has used so far, if it may end by itself before it used all. */
  readonly takenBytes?: () => number;
  /** Ends it at once; harmless to repeat. */
  readonly stop: () => void;
}

/**
 * Drives blocks through a machine and yields what comes out, while the next blocks go in. What the source throws and the
 * signal's reason pass through; what the machine throws is translated. A block that was not used goes back.
 */
export async function* pump(
  machine: Machine,
  source: BlockSource,
  translate: (error: unknown) => unknown,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  let failure: { readonly error: unknown } | undefined;
  const fail = (error: unknown): void => {
    failure ??= { error };
    machine.stop();
  };
  const onAbort = (): void => fail(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  const watch = new SilenceWatch(() => fail(stalled(machine.name)));
  let ended = false;
  try {
    const feeding = feed(machine, source, watch).catch(fail);
    const output = machine.output[Symbol.asyncIterator]();
    for (let next = await watch.over(output.next()); next.done !== true; next = await watch.over(output.next())) {
      yield next.value;
      giveBack(next.value);
    }
    await feeding;
    ended = true;
    if (failure !== undefined) throw failure.error;
  } catch (error) {
    throw failure === undefined ? translate(error) : failure.error;
  } finally {
    watch.stop();
    signal.removeEventListener('abort', onAbort);
    if (!ended) machine.stop(); // a program that has ended its output may not have exited yet
  }
}

async function feed(machine: Machine, source: BlockSource, watch: SilenceWatch): Promise<void> {
  for (let block = await source.next(); block !== undefined; block = await source.next()) {
    const before = machine.takenBytes?.() ?? 0;
    await watch.over(written(machine.input, block));
    if (machine.input.destroyed) return;
    const rest = block.subarray((machine.takenBytes?.() ?? block.length) - before);
    if (rest.length > 0) {
      source.giveBack(rest);
      return;
    }
  }
  machine.input.end();
  watch.inputEnded();
}

/** Until the block is used, or can no longer be. */
function written(input: Writable, block: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      input.off('close', done);
      resolve();
    };
    input.once('close', done);
    input.write(block, done);
  });
}

function stalled(name: string): AgentError {
  return new FirmwareError('decompression-stalled', `${name} did nothing for ${SILENCE_MS / 1000} s`);
}

/** Notices that both sides, or the last one, wait for the machine and nothing happens. Waiting for others is not its matter. */
class SilenceWatch {
  readonly #timer: NodeJS.Timeout;
  #sides = 2;
  #waiting = 0;
  #turns = 0;

  constructor(onSilence: () => void) {
    let turnsBefore = -1;
    this.#timer = setInterval(() => {
      if (this.#waiting === this.#sides && this.#turns === turnsBefore) onSilence();
      turnsBefore = this.#turns;
    }, SILENCE_MS);
  }

  async over<T>(wait: Promise<T>): Promise<T> {
    this.#waiting += 1;
    try {
      return await wait;
    } finally {
      this.#waiting -= 1;
      this.#turns += 1;
    }
  }

  inputEnded(): void {
    this.#sides = 1;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
