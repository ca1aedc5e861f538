import type { Writable } from 'node:stream';

import type { AgentError } from '../system/errors.ts';
import { releaseMemory } from '../system/files/release-memory.ts';
import type { BlockSource } from './block-source.ts';
import { FirmwareError } from './errors.ts';

/** Invariant 6: the longest time that a machine with work to do may be silent. */
const SILENCE_MS = 60_000;

/** Something outside of this thread that transforms bytes, such as a decompressor. */
export interface Transformer {
  /** Its name in messages. */
  readonly name: string;
  readonly input: Writable;
  readonly output: AsyncIterable<Uint8Array>;
  /** Returns the number of input bytes used so far, if it may end before it has used all. */
  readonly takenBytes?: () => number;
  /** Ends the machine immediately. May be repeated. */
  readonly stop: () => void;
}

/**
 * Feeds blocks into a machine and yields its output at the same time. Errors of the source and the signal's reason pass
 * through; errors of the machine are translated. The unused rest of the last block goes back to the source.
 */
export async function* pump(
  machine: Transformer,
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
      releaseMemory(next.value);
    }
    await feeding;
    ended = true;
    if (failure !== undefined) throw failure.error;
  } catch (error) {
    throw failure === undefined ? translate(error) : failure.error;
  } finally {
    watch.stop();
    signal.removeEventListener('abort', onAbort);
    if (!ended) machine.stop(); // a program that has closed its output may still run
  }
}

async function feed(machine: Transformer, source: BlockSource, watch: SilenceWatch): Promise<void> {
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

/** Resolves when the block is used, or can no longer be used. */
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

/**
 * Notices that the machine makes no progress although both sides wait for it, or the output alone once the input has
 * ended. Waiting for the source or the consumer does not count.
 */
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
