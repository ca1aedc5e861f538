/** The service's interface, whole, whatever the transport: nine operations (interface.md, Endpoints). */

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

/**
 * One call each, one attempt each (but `firmware`, which takes up a cut transfer by itself). Errors are ServiceErrors;
 * retry policy and re-activation are in session.ts, above both transports.
 */
export interface ServiceTransport extends AsyncDisposable {
  activate(serialNumber: string, signal: AbortSignal): Promise<Activation>;
  currentVersion(thing: Activation, signal: AbortSignal): Promise<Version>;
  targetVersion(thing: Activation, signal: AbortSignal): Promise<Version>;
  updates(thing: Activation, fromVersionId: string, signal: AbortSignal): Promise<readonly Version[]>;
  firmware(
    thing: Activation,
    versionId: string,
    from: FirmwarePosition | undefined,
    signal: AbortSignal,
  ): Promise<FirmwareText>;
  switchTo(thing: Activation, versionId: string, signal: AbortSignal): Promise<void>;
}

/** Property values and datapoints exist in REST form only. */
export interface ValueTransport {
  property(thing: Activation, propertyId: string, signal: AbortSignal): Promise<unknown>;
  setProperty(thing: Activation, propertyId: string, value: unknown, signal: AbortSignal): Promise<void>;
  postDatapoints(
    thing: Activation,
    eventId: string,
    datapoints: readonly Datapoint[],
    signal: AbortSignal,
  ): Promise<void>;
}
