import type {
  Activation,
  FirmwarePosition,
  FirmwareText,
  ServiceTransport,
  ValueTransport,
  Version,
} from '../../../src/service/contract.ts';
import { ServiceError } from '../../../src/service/errors.ts';
import type { Outcome } from '../../../src/update/journal/state.ts';
import type { Power } from '../../stand-ins/machine/power.ts';
import type { Catalog } from './catalog.ts';
import type { Faults } from './faults.ts';

const THING_ID = 'thing-1';

export interface TransportParts {
  readonly catalog: Catalog;
  /** Of the gateway: without it nothing is sent. */
  readonly power: Power;
  readonly faults: Faults;
  /** Looks at each switch when it arrives. */
  readonly onSwitch: (versionId: string) => void;
  /** Looks at each transfer before it begins. */
  readonly onTransfer: (versionId: string, from: FirmwarePosition | undefined) => void;
}

/** What the service knows. */
export interface ServiceState {
  readonly current: string;
  readonly target: string | undefined;
  readonly switches: readonly string[];
  readonly reports: readonly Outcome[];
  readonly keys: readonly string[];
}

export const newService: ServiceState = { current: 'v1', target: undefined, switches: [], reports: [], keys: [] };

/** The service as interface.md tells it, for one thing, without a network. It survives what happens to the gateway. */
export class MemoryTransport implements ServiceTransport, ValueTransport {
  readonly #parts: TransportParts;
  current: string;
  /** Undefined: no switch is pending. */
  target: string | undefined;
  readonly switches: string[];
  readonly reports: Outcome[];
  /** Every key that was ever given; the last one is valid. */
  readonly keys: string[];

  constructor(parts: TransportParts, state: ServiceState) {
    this.#parts = parts;
    this.current = state.current;
    this.target = state.target;
    this.switches = [...state.switches];
    this.reports = [...state.reports];
    this.keys = [...state.keys];
  }

  get state(): ServiceState {
    const { current, target, switches, reports, keys } = this;
    return { current, target, switches: [...switches], reports: [...reports], keys: [...keys] };
  }

  get wanted(): string {
    return this.target ?? this.current;
  }

  async activate(_serialNumber: string, signal: AbortSignal): Promise<Activation> {
    return this.#call(undefined, signal, () => ({ thingId: THING_ID, apiKey: this.#newKey() }));
  }

  async currentVersion(thing: Activation, signal: AbortSignal): Promise<Version> {
    return this.#call(thing, signal, () => versionOf(this.current));
  }

  async targetVersion(thing: Activation, signal: AbortSignal): Promise<Version> {
    return this.#call(thing, signal, () => versionOf(this.wanted));
  }

  async updates(thing: Activation, fromVersionId: string, signal: AbortSignal): Promise<readonly Version[]> {
    return this.#call(thing, signal, () => [fromVersionId, this.wanted].map(versionOf));
  }

  async switchTo(thing: Activation, versionId: string, signal: AbortSignal): Promise<void> {
    await this.#call(thing, signal, () => {
      this.#parts.onSwitch(versionId);
      this.switches.push(versionId);
      this.current = versionId;
      if (this.target === versionId) this.target = undefined;
    });
  }

  async property(): Promise<never> {
    throw new Error('nobody asks');
  }

  async setProperty(thing: Activation, _propertyId: string, value: unknown, signal: AbortSignal): Promise<void> {
    await this.#call(thing, signal, () => this.reports.push(value as Outcome));
  }

  async postDatapoints(): Promise<never> {
    throw new Error('nobody measures');
  }

  async firmware(
    thing: Activation,
    versionId: string,
    from: FirmwarePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareText> {
    return this.#call(thing, signal, () => {
      this.#parts.onTransfer(versionId, from);
      const { text, chunkEnds } = this.#parts.catalog.entry(versionId);
      const validator = `"${versionId}"`;
      const startOffset = from?.validator === validator && from.totalBytes === text.length ? from.offset : 0;
      const chunks = this.#chunks(text, startOffset, chunkEnds);
      const dispose = async (): Promise<void> => {};
      return { startOffset, totalBytes: text.length, validator, chunks, [Symbol.asyncDispose]: dispose };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async *#chunks(text: Uint8Array, from: number, ends: readonly number[]): AsyncGenerator<Uint8Array> {
    const { power, faults } = this.#parts;
    let at = from;
    for (const end of ends) {
      if (end <= at) continue;
      power.need('receive');
      if (faults.strikes('transfer-cut')) throw lost('the transfer was cut');
      yield text.subarray(at, end);
      at = end;
    }
  }

  async #call<T>(thing: Activation | undefined, signal: AbortSignal, work: () => T): Promise<T> {
    const { power, faults } = this.#parts;
    signal.throwIfAborted();
    power.need('send');
    if (faults.strikes('request-lost')) throw lost('no connection');
    if (faults.strikes('key-dropped')) this.#newKey();
    if (thing !== undefined && thing.apiKey !== this.keys.at(-1)) {
      throw new ServiceError({ code: 'key-rejected', why: 'the key is not valid' });
    }
    const answer = work();
    if (faults.strikes('reply-lost')) throw lost('the connection was cut');
    return answer;
  }

  #newKey(): string {
    const key = `key-${this.keys.length + 1}`;
    this.keys.push(key);
    return key;
  }
}

export function versionOf(id: string): Version {
  return { id, name: id };
}

function lost(why: string): ServiceError {
  return new ServiceError({ code: 'connection-reset', why });
}
