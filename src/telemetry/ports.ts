import type { LeasedLine, OpenPort } from '../serial/line.ts';
import type { JsonText } from '../system/json-value.ts';

/** The needs of telemetry that other modules meet. `service/session.ts` implements the first one. */

/** The service, for values. Errors are AgentErrors with the codes that classify-failure.ts knows. */
export interface ValueService {
  /** Makes one attempt. `datapoints`: an array of `{ value, at }`. */
  postDatapoints(eventId: string, datapoints: JsonText, signal: AbortSignal): Promise<void>;
  setProperty(propertyId: string, value: JsonText, signal: AbortSignal): Promise<void>;
  property(propertyId: string, signal: AbortSignal): Promise<unknown>;
  /** Makes a request whose reply shows the time of the service. Returns true if there was a reply. */
  requestTime(signal: AbortSignal): Promise<boolean>;
}

export type SerialLine = LeasedLine;

/** Opens a serial line. `serial/shared-ports.ts` leases it. */
export type OpenSerialLine = (...port: Parameters<OpenPort>) => Promise<SerialLine>;
