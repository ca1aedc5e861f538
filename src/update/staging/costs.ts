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
    if (source.form === 'decoded') return source;
    return observed(source, async ({ byteLength }) => {
      this.#figures.fetchedBytes = (this.#figures.fetchedBytes ?? 0) + byteLength;
    });
  }
}

/** The same source, with a call before each transfer and before each chunk. */
function observed(
  source: FirmwareSource,
  onChunk: (chunk: Uint8Array) => Promise<void>,
  onOpen: () => Promise<void> = async () => {},
): FirmwareSource {
  const open: FirmwareSource['open'] = async (from, signal) => {
    await onOpen();
    const transfer = await source.open(from, signal);
    async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
      for await (const chunk of transfer.chunks) {
        await onChunk(chunk);
        yield chunk;
      }
    }
    return {
      startOffset: transfer.startOffset,
      get totalBytes(): number | undefined {
        return transfer.totalBytes;
      },
      get validator(): string | undefined {
        return transfer.validator;
      },
      chunks: chunks(),
      [Symbol.asyncDispose]: async () => transfer[Symbol.asyncDispose](),
    };
  };
  return { form: source.form, open };
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
  if (by !== 'service' || isList === true) return source;
  let checkedMs = clock.monotonicMs();
  const check = async (): Promise<void> => {
    const deferral = mayTry({ meteredLink: await meteredLink() });
    if (deferral !== undefined) throw new AttemptDeferred(deferral);
    checkedMs = clock.monotonicMs();
  };
  const checkSometimes = async (): Promise<void> => {
    if (clock.monotonicMs() - checkedMs >= CHECK_EVERY_MS) await check();
  };
  return observed(source, checkSometimes, check);
}
