import type { ServiceTransport } from '../../../src/service/contract.ts';
import { operations } from '../../../src/service/operations.ts';
import { asThing } from '../../fakes/service/as-thing.ts';
import type { Operation } from '../../fakes/service/faults.ts';

export const thing = { thingId: 'thing-1', apiKey: 'key-of-the-thing' };
export const MOST_TEXT_BYTES = 8 * 1024 * 1024;

const signal = new AbortController().signal;

/** Makes one call of each kind, in either form of the service. Reads firmware completely. */
export async function callService(transport: ServiceTransport, operation: Operation): Promise<unknown> {
  switch (operation) {
    case 'activate':
      return transport.call(operations.activate, { serialNumber: 'GW-0001' }, signal);
    case 'currentVersion':
      return transport.call(operations.currentVersion, thing, signal);
    case 'targetVersion':
      return transport.call(operations.targetVersion, thing, signal);
    case 'updates':
      return transport.call(operations.updates, { ...thing, versionId: '1' }, signal);
    case 'firmware':
      return readFirmware(transport);
    case 'switchTo':
      return transport.call(operations.switchTo, { ...thing, versionId: '2' }, signal);
    case 'property':
      return transport.call(operations.property, { ...thing, propertyId: 'p' }, signal);
    case 'setProperty':
      return transport.call(operations.setProperty, { ...thing, propertyId: 'p', value: { a: 1 } }, signal);
    case 'postDatapoints':
      return transport.call(
        operations.postDatapoints,
        { ...thing, eventId: 'e', value: [{ value: 1, at: '2027-01-01T00:00:00.0Z' }] },
        signal,
      );
  }
}

async function readFirmware(transport: ServiceTransport): Promise<number> {
  await using text = await transport.firmware('2', asThing(thing), undefined, signal);
  let size = 0;
  for await (const chunk of text.chunks) {
    size += chunk.byteLength;
    if (size > MOST_TEXT_BYTES) throw new Error('more came than is permitted');
  }
  return size;
}

/** Members of a reply that are texts. */
const texts: Readonly<Partial<Record<Operation, readonly string[]>>> = {
  activate: ['thingId', 'apiKey'],
  currentVersion: ['id'],
  targetVersion: ['id'],
  updates: ['id'],
};

/** Throws where a call resolved with something else than it promises. */
export function requireForm(operation: Operation, value: unknown): void {
  const objects = operation === 'updates' ? (value as readonly unknown[]) : [value];
  const isRight = objects.every((one) =>
    (texts[operation] ?? []).every((name) => typeof (one as Record<string, unknown>)[name] === 'string'),
  );
  if (!isRight) throw new Error(`${operation} gave ${JSON.stringify(value)}`);
}
