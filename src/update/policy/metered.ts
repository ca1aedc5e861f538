import type { FirmwareSource } from '../ports.ts';
import { withChunks } from '../staging/costs.ts';
import type { InstallRequest, UpdatePorts } from './install-request.ts';
import { AttemptDeferred, mayTry } from './may-try.ts';

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
