import type { LeasedLine, OpenPort } from '../serial/line.ts';

/** What telemetry needs of the other rooms. `service/session.ts` implements the first one. */

/** The service, for values. Errors are AgentErrors with the codes that verdict.ts knows. */
export interface ValueService {
  /** Makes one attempt. */
  postDatapoints(
    eventId: string,
    datapoints: readonly { readonly value: unknown; readonly at: string }[],
    signal: AbortSignal,
  ): Promise<void>;
  setProperty(propertyId: string, value: unknown, signal: AbortSignal): Promise<void>;
  property(propertyId: string, signal: AbortSignal): Promise<unknown>;
}

export type SerialLine = LeasedLine;

/** Opens a serial line. `serial/shared-ports.ts` lends it. */
export type OpenSerialLine = (...port: Parameters<OpenPort>) => Promise<SerialLine>;
