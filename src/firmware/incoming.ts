import { mapError } from '../system/errors.ts';
import type { FirmwareHeader } from '../update/ports.ts';
import type { IncomingPayload } from '../update/ports/incoming.ts';

/** A firmware image as read from its container. The reader keeps the bytes open. */
export interface ReadFirmware {
  readonly header: FirmwareHeader;
  readonly payloads: AsyncIterable<IncomingPayload>;
}

/** Yields the same payloads. Translates each error that occurs while they are read or written. */
export async function* withMappedErrors(
  payloads: AsyncIterable<IncomingPayload>,
  told: (error: unknown) => unknown,
): AsyncGenerator<IncomingPayload, void, undefined> {
  try {
    for await (const payload of payloads) yield { ...payload, write: (...to) => mapError(payload.write(...to), told) };
  } catch (error) {
    throw told(error);
  }
}

/** No payloads. `atEnd` runs when the iteration ends. */
export function noPayloads(atEnd: () => Promise<void>): AsyncIterable<never> {
  const next = async (): Promise<IteratorReturnResult<undefined>> => {
    await atEnd();
    return { done: true, value: undefined };
  };
  return { [Symbol.asyncIterator]: () => ({ next }) };
}
