import { AgentError } from '../../../src/system/errors.ts';
import type { FirmwareSource, FirmwareTransfer, WirePosition } from '../../../src/update/ports.ts';
import { inChunks } from './chunks.ts';

export interface MemorySourceOptions {
  readonly form?: FirmwareSource['form'];
  readonly chunkSizes?: readonly number[];
  /** Validator of the service, if it sends one. */
  readonly validator?: string | undefined;
  readonly tellsTotal?: boolean;
  /** The service answers every request with the whole text. */
  readonly ignoresPosition?: boolean;
  /** The n-th transfer (from 0) is interrupted with `link-lost` after this number of bytes. */
  readonly cutsAt?: readonly (number | undefined)[];
}

/** Firmware in memory, as from a service or a file: chunks are overwritten after use. */
export class MemorySource implements FirmwareSource {
  readonly form: FirmwareSource['form'];
  readonly openings: (WirePosition | undefined)[] = [];
  /** Transfers not yet disposed. */
  unclosed = 0;
  text: Uint8Array;
  validator: string | undefined;
  readonly #options: MemorySourceOptions;

  constructor(text: Uint8Array | string, options: MemorySourceOptions = {}) {
    this.text = typeof text === 'string' ? Buffer.from(text, 'latin1') : text;
    this.form = options.form ?? 'json-string';
    this.validator = options.validator;
    this.#options = options;
  }

  async open(from: WirePosition | undefined, signal: AbortSignal): Promise<FirmwareTransfer> {
    signal.throwIfAborted();
    const { ignoresPosition = false, tellsTotal = true, cutsAt = [], chunkSizes = [64 * 1024] } = this.#options;
    const isSame = from !== undefined && from.validator === this.validator && from.totalBytes === this.text.length;
    const startOffset = isSame && !ignoresPosition ? from.offset : 0;
    const cut = cutsAt[this.openings.length];
    this.openings.push(from);
    this.unclosed += 1;
    return {
      startOffset,
      totalBytes: tellsTotal ? this.text.length : undefined,
      validator: this.validator,
      chunks: broken(inChunks(this.text.subarray(startOffset), chunkSizes), cut),
      [Symbol.asyncDispose]: async () => {
        this.unclosed -= 1;
      },
    };
  }
}

export class LinkLost extends AgentError {
  constructor() {
    super({ code: 'link-lost', message: 'the connection was lost', remedy: 'retry', exit: 'unreachable' });
  }
}

/** Yields the chunks up to this number of bytes. */
export async function* broken(
  chunks: AsyncIterable<Uint8Array>,
  afterBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<Uint8Array, void, undefined> {
  let left = afterBytes;
  for await (const chunk of chunks) {
    if (chunk.length >= left) {
      yield chunk.subarray(0, left);
      throw new LinkLost();
    }
    left -= chunk.length;
    yield chunk;
  }
}

/** A text that is never whole in memory: a beginning, one piece over and over, an end. */
export function repeatingSource(parts: { readonly piece: Uint8Array; readonly times: number }): FirmwareSource {
  const { piece, times } = parts;
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    yield Buffer.from('"');
    for (let turn = 0; turn < times; turn += 1) yield piece;
    yield Buffer.from('"');
  }
  return {
    form: 'json-string',
    open: async () => ({
      startOffset: 0,
      totalBytes: piece.length * times + 2,
      validator: '"endless"',
      chunks: chunks(),
      [Symbol.asyncDispose]: async () => {},
    }),
  };
}
