import { Readable } from 'node:stream';

import type { Activation, Datapoint, ServiceTransport, WithThing } from '../../../src/service/contract.ts';
import { ServiceError } from '../../../src/service/errors.ts';
import { operations, textOf } from '../../../src/service/operations.ts';
import type { Input, Operation as ServiceOperation, Row } from '../../../src/service/operations.ts';
import type { FirmwareTransfer, WirePosition } from '../../../src/update/ports.ts';
import type { Operation } from '../../fakes/service/faults.ts';
import { Refused } from '../../fakes/service/world.ts';
import type { Thing, World } from '../../fakes/service/world.ts';

/** The service without a network: the same world as the stand-in's, and errors on demand. */
export class FakeTransport implements ServiceTransport {
  readonly world: World;
  readonly calls: Operation[] = [];
  readonly #failures: { readonly operation: Operation; readonly error: unknown }[] = [];

  constructor(world: World) {
    this.world = world;
  }

  failNext(operation: Operation, error: unknown): void {
    this.#failures.push({ operation, error });
  }

  async call<I extends Input, O>(operation: ServiceOperation<I, O>, input: I, signal: AbortSignal): Promise<O> {
    const name = nameOf(operation);
    return this.#call(name, signal, () => operation.reply.read(this.#answer(operation, input), name));
  }

  #answer(operation: Row, input: Input): unknown {
    if (operation === operations.activate) return this.world.activate(textOf(input, 'serialNumber'));
    const thing = this.#known({ thingId: textOf(input, 'thingId'), apiKey: textOf(input, 'apiKey') });
    return answers.get(operation)?.(this.world, thing, input);
  }

  async firmware(
    versionId: string,
    withThing: WithThing,
    from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareTransfer> {
    return withThing(async (known) => this.#firmware(versionId, known, from, signal));
  }

  async #firmware(
    versionId: string,
    thing: Activation,
    from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareTransfer> {
    return this.#call('firmware', signal, () => {
      this.#known(thing);
      const { text, tag } = this.world.firmware(versionId);
      const validator = `"${tag}"`;
      const goesOn = from?.validator === validator && from.totalBytes === text.sizeBytes;
      const startOffset = goesOn ? from.offset : 0;
      return {
        startOffset,
        totalBytes: text.sizeBytes,
        validator,
        chunks: Readable.from(text.read(startOffset)),
        [Symbol.asyncDispose]: async () => {},
      };
    });
  }

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

type Answer = (world: World, thing: Thing, input: Input) => unknown;

const answers = new Map<Row, Answer>([
  [operations.currentVersion, (world, thing) => world.currentVersion(thing)],
  [operations.targetVersion, (world, thing) => world.targetVersion(thing)],
  [operations.updates, (world, _, input) => world.updates(textOf(input, 'versionId'))],
  [operations.switchTo, (world, thing, input) => world.switchTo(thing, textOf(input, 'versionId'))],
  [operations.property, (_, { properties }, input) => known(properties, textOf(input, 'propertyId'))],
  [operations.setProperty, (_, { properties }, input) => properties.set(textOf(input, 'propertyId'), valueOf(input))],
  [
    operations.postDatapoints,
    (_, { datapoints }, input) => {
      const event = textOf(input, 'eventId');
      const points = valueOf(input) as readonly Datapoint[];
      datapoints.set(event, [...(datapoints.get(event) ?? []), ...points]);
    },
  ],
]);

function known(properties: ReadonlyMap<string, unknown>, id: string): unknown {
  if (!properties.has(id)) throw new Refused(404, 'no such property');
  return properties.get(id);
}

function valueOf(input: Input): unknown {
  return Reflect.get(input, 'value');
}

function nameOf(operation: Row): Operation {
  const entries = Object.entries(operations) as [Operation, Row][];
  return entries.find(([, row]) => row === operation)?.[0] ?? 'activate';
}
