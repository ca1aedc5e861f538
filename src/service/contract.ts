import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import type { FirmwareTransfer, WirePosition } from '../update/ports.ts';
import type { Input, Operation } from './operations.ts';
import type { Throttle } from './throttle.ts';
import type { Traffic } from './traffic.ts';

export type { Version } from '../update/ports.ts';

export interface Activation {
  readonly thingId: string;
  readonly apiKey: string;
}

export interface Datapoint {
  readonly value: unknown;
  /** ISO 8601, UTC, fractional seconds, trailing Z. */
  readonly at: string;
}

/** Makes a call as this gateway's thing. If its key is rejected, makes it once more with a new one. */
export type WithThing = <T>(call: (thing: Activation) => Promise<T>) => Promise<T>;

/**
 * One form of the service (operations.ts). Errors are ServiceErrors; retries and repeated activation are in session.ts.
 */
export interface ServiceTransport {
  /** Makes one attempt at a call. */
  call<I extends Input, O>(operation: Operation<I, O>, input: I, signal: AbortSignal): Promise<O>;
  /** Opens the encoded firmware. An interrupted transfer is continued within this call, with further requests. */
  firmware(
    versionId: string,
    withThing: WithThing,
    from: WirePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareTransfer>;
}

/** The dependencies of both forms. */
export interface TransportDeps {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  /** Bounds the rate of firmware downloads, and of everything from a broker. If omitted, full speed. */
  readonly throttle?: Throttle | undefined;
  /** Counts what the connections carry. */
  readonly traffic?: Traffic | undefined;
}
