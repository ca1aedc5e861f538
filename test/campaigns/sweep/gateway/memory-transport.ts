import type { ServiceTransport, Version, WithThing } from '../../../../src/service/contract.ts';
import { ServiceError } from '../../../../src/service/errors.ts';
import { operations, textOf } from '../../../../src/service/operations.ts';
import type { Input, Operation, Row } from '../../../../src/service/operations.ts';
import type { Outcome } from '../../../../src/update/journal/state.ts';
import type { FirmwareTransfer, WirePosition } from '../../../../src/update/ports.ts';
import type { Power } from '../../../fakes/machine/power.ts';
import type { Faults } from '../faults.ts';
import { contentOf } from './catalog.ts';
import type { Catalog } from './catalog.ts';

const THING_ID = 'thing-1';
/** The property with the ids of versions requested as full images. */
export const WHOLE_IMAGE = 'whole_image';

export interface TransportParts {
  readonly catalog: Catalog;
  /** Power of the gateway: without it, no request is sent. */
  readonly power: Power;
  readonly faults: Faults;
  /** Looks at each switch when it arrives. */
  readonly onSwitch: (versionId: string) => void;
  /** Looks at each transfer before it begins. */
  readonly onTransfer: (versionId: string, from: WirePosition | undefined) => void;
  /** Checks the owner of each key that is sent. */
  readonly onKey: (owner: string | undefined) => void;
  /** Checks each report when it arrives. */
  readonly onReport: (report: Outcome) => void;
}

/** State of the service. */
export interface ServiceState {
  readonly current: string;
  readonly target: string | undefined;
  readonly switches: readonly string[];
  readonly reports: readonly Outcome[];
  readonly keys: readonly string[];
  /** The serial number of each key. */
  readonly owners: readonly string[];
  /** Versions that the gateway requested as full images. */
  readonly whole: readonly string[];
}

export const newService: ServiceState = {
  current: 'v1',
  target: undefined,
  switches: [],
  reports: [],
  keys: [],
  owners: [],
  whole: [],
};

/** The service as interface.md tells it, for one thing, without a network. It survives what happens to the gateway. */
export class MemoryTransport implements ServiceTransport {
  readonly #parts: TransportParts;
  current: string;
  /** The pending switch, if any. */
  target: string | undefined;
  readonly switches: string[];
  readonly reports: Outcome[];
  /** Every key that was ever given; the last one is valid. */
  readonly keys: string[];
  readonly owners: string[];
  whole: readonly string[];

  constructor(parts: TransportParts, state: ServiceState) {
    this.#parts = parts;
    this.current = state.current;
    this.target = state.target;
    this.switches = [...state.switches];
    this.reports = [...state.reports];
    this.keys = [...state.keys];
    this.owners = [...state.owners];
    this.whole = state.whole;
  }

  get state(): ServiceState {
    const { current, target, switches, reports, keys, owners, whole } = this;
    const lists = { switches: [...switches], reports: [...reports], keys: [...keys], owners: [...owners] };
    return { current, target, ...lists, whole };
  }

  get wanted(): string {
    return this.target ?? this.current;
  }

  async call<I extends Input, O>(operation: Operation<I, O>, input: I, signal: AbortSignal): Promise<O> {
    const key = operation.key === 'none' ? undefined : textOf(input, 'apiKey');
    return this.#call(key, signal, () => operation.reply.read(this.#answer(operation, input), operation.title));
  }

  #answer(operation: Row, input: Input): unknown {
    const versionId = textOf(input, 'versionId');
    switch (operation) {
      case operations.activate:
        return { thingId: THING_ID, apiKey: this.#activate(textOf(input, 'serialNumber')) };
      case operations.currentVersion:
        return versionOf(this.current);
      case operations.targetVersion:
        return versionOf(this.wanted);
      case operations.updates:
        return [versionId, this.wanted, MISNAMED].map(versionOf);
      case operations.setProperty:
        return this.#setProperty(textOf(input, 'propertyId'), Reflect.get(input, 'value'));
      case operations.switchTo:
        this.#parts.onSwitch(versionId);
        this.switches.push(versionId);
        this.current = versionId;
        if (this.target === versionId) this.target = undefined;
        return undefined;
      default:
        throw new Error('nobody asks');
    }
  }

  #setProperty(id: string, value: unknown): void {
    if (id === WHOLE_IMAGE) this.whole = (value as { readonly versions: readonly string[] }).versions;
    else {
      this.#parts.onReport(value as Outcome);
      this.reports.push(value as Outcome);
    }
  }

  async firmware(
    versionId: string,
    withThing: WithThing,
    from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareTransfer> {
    return withThing(async ({ apiKey }) => this.#transfer(versionId, apiKey, from, signal));
  }

  async #transfer(
    versionId: string,
    apiKey: string,
    from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareTransfer> {
    return this.#call(apiKey, signal, () => {
      this.#parts.onTransfer(versionId, from);
      const entry = this.#parts.catalog.entry(versionId);
      const whole = this.whole.includes(versionId) ? entry.whole : undefined;
      const { text, chunkEnds } = whole ?? entry;
      const validator = `"${versionId}${whole === undefined ? '' : ', whole'}"`;
      const startOffset = from?.validator === validator && from.totalBytes === text.length ? from.offset : 0;
      const chunks = this.#chunks(text, startOffset, chunkEnds);
      const dispose = async (): Promise<void> => {};
      return { startOffset, totalBytes: text.length, validator, chunks, [Symbol.asyncDispose]: dispose };
    });
  }

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

  async #call<T>(key: string | undefined, signal: AbortSignal, work: () => T): Promise<T> {
    const { power, faults } = this.#parts;
    signal.throwIfAborted();
    power.need('send');
    if (faults.strikes('request-lost')) throw lost('no connection');
    if (faults.strikes('page')) throw new ServiceError({ code: 'reply-web-page', why: 'a web page answered' });
    if (faults.strikes('service-forgot')) this.#forget();
    if (faults.strikes('key-dropped')) this.#newKey(this.owners.at(-1) ?? '');
    if (key !== undefined) this.#parts.onKey(this.owners[this.keys.indexOf(key)]);
    if (key !== undefined && key !== this.keys.at(-1)) {
      throw new ServiceError({ code: 'key-rejected', why: 'the key is not valid' });
    }
    const answer = work();
    if (faults.strikes('reply-lost')) throw lost('the connection was cut');
    return answer;
  }

  /** The owner's target is not part of the backup, but is set again. */
  #forget(): void {
    this.target = this.wanted;
    this.current = newService.current;
  }

  /** Another serial number is another thing, with the same target and without a history. */
  #activate(serialNumber: string): string {
    if (this.owners.length > 0 && this.owners.at(-1) !== serialNumber) {
      this.#forget();
      this.whole = [];
    }
    return this.#newKey(serialNumber);
  }

  #newKey(owner: string): string {
    const key = `key-${this.keys.length + 1}`;
    this.keys.push(key);
    this.owners.push(owner);
    return key;
  }
}

/** A release to which the service gives the name of a trust list. */
const MISNAMED = 'v3#trust-9';

export function versionOf(id: string): Version {
  return { id, name: id === MISNAMED ? 'trust-9' : contentOf(id) };
}

function lost(why: string): ServiceError {
  return new ServiceError({ code: 'connection-reset', why });
}
