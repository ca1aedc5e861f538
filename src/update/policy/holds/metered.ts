import type { FirmwareSource } from '../../ports.ts';
import { withChunks } from '../../staging/costs.ts';
import type { InstallRequest, UpdatePorts } from '../install-request.ts';
import { AttemptDeferred, meteredHold } from '../plan.ts';

const LOOK_EVERY_MS = 5_000;

/**
 * Guarantee `metered`: the source of an order, which throws AttemptDeferred while the link is metered. What a person brings,
 * and a list, is transferred nevertheless.
 */
export function meteredSource(
  { source, by, isList }: Pick<InstallRequest, 'source' | 'by' | 'isList'>,
  { meteredLink, clock }: Pick<UpdatePorts, 'meteredLink' | 'clock'>,
): FirmwareSource {
  if (meteredLink === undefined || by !== 'service' || isList === true) return source;
  const look = async (): Promise<void> => {
    const hold = meteredHold(await meteredLink());
    if (hold !== undefined) throw new AttemptDeferred(hold);
  };
  async function* spare(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    let lookedMs = clock.monotonicMs();
    for await (const chunk of chunks) {
      yield chunk;
      if (clock.monotonicMs() - lookedMs < LOOK_EVERY_MS) continue;
      await look();
      lookedMs = clock.monotonicMs();
    }
  }
  const open: FirmwareSource['open'] = async (from, signal) => {
    await look();
    return source.open(from, signal);
  };
  return withChunks({ form: source.form, open }, spare);
}
