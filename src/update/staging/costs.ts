import type { Figures } from '../journal/state.ts';
import type { InstallRequest, UpdatePorts } from '../policy/install-request.ts';
import { AttemptDeferred, mayTry } from '../policy/may-try.ts';
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

const CHECK_EVERY_MS = 5_000;

/**
 * Guarantee `metered`: returns the source of an order, which throws AttemptDeferred while the connection is metered. A file
 * of an operator and a trust list are transferred anyway.
 */
export function meteredSource(
  { source, by, isList }: Pick<InstallRequest, 'source' | 'by' | 'isList'>,
  { meteredLink, clock }: Pick<UpdatePorts, 'meteredLink' | 'clock'>,
): FirmwareSource {
  if (meteredLink === undefined || by !== 'service' || isList === true) return source;
  const check = async (): Promise<void> => {
    const deferral = mayTry({ meteredLink: await meteredLink() });
    if (deferral !== undefined) throw new AttemptDeferred(deferral);
  };
  async function* spare(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    let checkedMs = clock.monotonicMs();
    for await (const chunk of chunks) {
      yield chunk;
      if (clock.monotonicMs() - checkedMs < CHECK_EVERY_MS) continue;
      await check();
      checkedMs = clock.monotonicMs();
    }
  }
  const open: FirmwareSource['open'] = async (from, signal) => {
    await check();
    return source.open(from, signal);
  };
  return withChunks({ form: source.form, open }, spare);
}
