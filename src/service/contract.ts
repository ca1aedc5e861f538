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

/** Where in the text a transfer goes on. See WirePosition in update/ports.ts. */
export interface FirmwarePosition {
  readonly offset: number;
  readonly validator: string;
  readonly totalBytes: number;
}

export interface FirmwareText extends AsyncDisposable {
  readonly startOffset: number;
  readonly totalBytes: number | undefined;
  readonly validator: string | undefined;
  /** In order, without gaps. A chunk is valid until the next one is asked for. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** What every call about a thing names; an activation is one. */
export type OfVersion = Activation & { readonly versionId: string };

/** One form of the service (operations.ts). Errors are ServiceErrors; retry policy and re-activation are in session.ts. */
export interface ServiceTransport extends AsyncDisposable {
  /** One call, one attempt. */
  call<I extends Input, O>(operation: Operation<I, O>, input: I, signal: AbortSignal): Promise<O>;
  /** Takes up a cut transfer by itself. */
  firmware(input: OfVersion, from: FirmwarePosition | undefined, signal: AbortSignal): Promise<FirmwareText>;
}
