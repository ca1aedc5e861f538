import type { Input, Operation } from './operations.ts';

export interface Activation {
  readonly thingId: string;
  readonly apiKey: string;
}

export interface Version {
  readonly id: string;
  readonly name: string;
  readonly description?: string | undefined;
}

export interface Datapoint {
  readonly value: unknown;
  /** ISO 8601, UTC, fractional seconds, trailing Z. */
  readonly at: string;
}

/** The place in the text where a transfer continues; see WirePosition in update/ports.ts. */
export interface FirmwarePosition {
  readonly offset: number;
  readonly validator: string;
  readonly totalBytes: number;
}

export interface FirmwareText extends AsyncDisposable {
  readonly startOffset: number;
  readonly totalBytes: number | undefined;
  readonly validator: string | undefined;
  /** The bytes of the text in order, without gaps. A chunk is valid until the next one is requested. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** The members that every call about a version names; an activation yields the others. */
export type OfVersion = Activation & { readonly versionId: string };

/**
 * One form of the service (operations.ts). Errors are ServiceErrors; retries and repeated activation are in session.ts.
 */
export interface ServiceTransport extends AsyncDisposable {
  /** Makes one attempt at a call. */
  call<I extends Input, O>(operation: Operation<I, O>, input: I, signal: AbortSignal): Promise<O>;
  /** Opens the encoded firmware. An interrupted transfer is continued within this call. */
  firmware(input: OfVersion, from: FirmwarePosition | undefined, signal: AbortSignal): Promise<FirmwareText>;
}
