import type { Figures } from '../journal/state.ts';
import type { FirmwareSource, WrittenPayload } from '../ports.ts';

/** Counts what one attempt costs, continuing from its costs before this start. */
export class Costs {
  #figures: Figures;

  constructor(before: Figures | undefined) {
    this.#figures = { ...before };
  }

  get figures(): Figures {
    return { ...this.#figures };
  }

  countWritten({ sizeBytes, unchangedBytes, deltaBaseBytes }: WrittenPayload): void {
    const { writtenBytes = 0, reusedBytes = 0 } = this.#figures;
    if (deltaBaseBytes !== undefined)
      this.#figures.deltaBaseBytes = (this.#figures.deltaBaseBytes ?? 0) + deltaBaseBytes;
    this.#figures.writtenBytes = writtenBytes + sizeBytes - unchangedBytes;
    this.#figures.reusedBytes = reusedBytes + unchangedBytes;
  }

  /** The same source, counted. A file of this gateway counts as nothing fetched. */
  counting(source: FirmwareSource): FirmwareSource {
    return source.form === 'decoded' ? source : withChunks(source, (chunks) => this.#count(chunks));
  }

  async *#count(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of chunks) {
      this.#figures.fetchedBytes = (this.#figures.fetchedBytes ?? 0) + chunk.byteLength;
      yield chunk;
    }
  }
}

/** The same source, whose chunks pass through `pass`. */
export function withChunks(
  source: FirmwareSource,
  pass: (chunks: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>,
): FirmwareSource {
  return {
    form: source.form,
    open: async (from, signal) => {
      const transfer = await source.open(from, signal);
      return {
        startOffset: transfer.startOffset,
        get totalBytes(): number | undefined {
          return transfer.totalBytes;
        },
        get validator(): string | undefined {
          return transfer.validator;
        },
        chunks: pass(transfer.chunks),
        [Symbol.asyncDispose]: async () => transfer[Symbol.asyncDispose](),
      };
    },
  };
}
