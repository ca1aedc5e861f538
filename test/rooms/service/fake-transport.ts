import type {
  Activation,
  Datapoint,
  FirmwarePosition,
  FirmwareText,
  ServiceTransport,
  ValueTransport,
  Version,
} from '../../../src/service/contract.ts';
import { ServiceError } from '../../../src/service/errors.ts';
import { readVersion, readVersions } from '../../../src/service/replies.ts';
import type { Operation } from '../../stand-ins/service/faults.ts';
import { Refused } from '../../stand-ins/service/world.ts';
import type { Thing, World } from '../../stand-ins/service/world.ts';

/** The service without a network: the same world as the stand-in's, and errors on demand. */
export class FakeTransport implements ServiceTransport, ValueTransport {
  readonly world: World;
  readonly calls: Operation[] = [];
  readonly #failures: { readonly operation: Operation; readonly error: unknown }[] = [];
  /** Of every transfer that is opened: after so many bytes of it, this is thrown. */
  cutTransfer: { readonly afterBytes: number; readonly error: unknown } | undefined;

  constructor(world: World) {
    this.world = world;
  }

  failNext(operation: Operation, error: unknown): void {
    this.#failures.push({ operation, error });
  }

  async activate(serialNumber: string, signal: AbortSignal): Promise<Activation> {
    return this.#call('activate', signal, () => {
      const { thingId, apiKey } = this.world.activate(serialNumber);
      return { thingId, apiKey };
    });
  }

  async currentVersion(thing: Activation, signal: AbortSignal): Promise<Version> {
    return this.#call('currentVersion', signal, () =>
      readVersion(this.world.currentVersion(this.#known(thing)), 'current version'),
    );
  }

  async targetVersion(thing: Activation, signal: AbortSignal): Promise<Version> {
    return this.#call('targetVersion', signal, () =>
      readVersion(this.world.targetVersion(this.#known(thing)), 'target version'),
    );
  }

  async updates(thing: Activation, fromVersionId: string, signal: AbortSignal): Promise<readonly Version[]> {
    return this.#call('updates', signal, () => {
      this.#known(thing);
      return readVersions(this.world.updates(fromVersionId), 'updates');
    });
  }

  async switchTo(thing: Activation, versionId: string, signal: AbortSignal): Promise<void> {
    await this.#call('switchTo', signal, () => this.world.switchTo(this.#known(thing), versionId));
  }

  async property(thing: Activation, propertyId: string, signal: AbortSignal): Promise<unknown> {
    return this.#call('property', signal, () => {
      const { properties } = this.#known(thing);
      if (!properties.has(propertyId)) throw new Refused(404, 'no such property');
      return properties.get(propertyId);
    });
  }

  async setProperty(thing: Activation, propertyId: string, value: unknown, signal: AbortSignal): Promise<void> {
    await this.#call('setProperty', signal, () => this.#known(thing).properties.set(propertyId, value));
  }

  async postDatapoints(
    thing: Activation,
    eventId: string,
    datapoints: readonly Datapoint[],
    signal: AbortSignal,
  ): Promise<void> {
    await this.#call('postDatapoints', signal, () => {
      const { datapoints: stored } = this.#known(thing);
      stored.set(eventId, [...(stored.get(eventId) ?? []), ...datapoints]);
    });
  }

  async firmware(
    thing: Activation,
    versionId: string,
    from: FirmwarePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareText> {
    return this.#call('firmware', signal, () => {
      this.#known(thing);
      const { text, tag } = this.world.firmware(versionId);
      const validator = `"${tag}"`;
      const goesOn = from?.validator === validator && from.totalBytes === text.sizeBytes;
      const startOffset = goesOn ? from.offset : 0;
      const cut = this.cutTransfer;
      return {
        startOffset,
        totalBytes: text.sizeBytes,
        validator,
        chunks: cutAfter(text.read(startOffset), cut),
        [Symbol.asyncDispose]: async () => {},
      };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async #call<T>(operation: Operation, signal: AbortSignal, work: () => T): Promise<T> {
    signal.throwIfAborted();
    this.calls.push(operation);
    const index = this.#failures.findIndex((failure) => failure.operation === operation);
    const [failure] = index === -1 ? [] : this.#failures.splice(index, 1);
    if (failure !== undefined) throw failure.error;
    try {
      return work();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const code = error.status === 401 ? 'key-rejected' : 'service-not-found';
      throw new ServiceError({ code, operation, why: error.message });
    }
  }

  #known({ thingId, apiKey }: Activation): Thing {
    const thing = this.world.thing(thingId);
    if (thing.apiKey !== apiKey) throw new Refused(401, 'the API key is not valid');
    return thing;
  }
}

async function* cutAfter(chunks: Iterable<Uint8Array>, cut: FakeTransport['cutTransfer']): AsyncGenerator<Uint8Array> {
  let left = cut?.afterBytes ?? Infinity;
  for (const chunk of chunks) {
    if (chunk.byteLength > left) {
      yield chunk.subarray(0, left);
      throw cut?.error;
    }
    left -= chunk.byteLength;
    yield chunk;
  }
}
