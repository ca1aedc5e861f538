/** What telemetry needs of the other rooms. `service/session.ts` satisfies the first. */

/** The service, for values. Errors are AgentErrors; their codes are the ones that verdict.ts knows. */
export interface ValueService {
  /** One attempt. */
  postDatapoints(
    eventId: string,
    datapoints: readonly { readonly value: unknown; readonly at: string }[],
    signal: AbortSignal,
  ): Promise<void>;
  setProperty(propertyId: string, value: unknown, signal: AbortSignal): Promise<void>;
  property(propertyId: string, signal: AbortSignal): Promise<unknown>;
}

/** A serial line. `mcu/serial-line.ts` satisfies it. */
export interface SerialLine extends AsyncDisposable {
  write(bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  /** What has arrived, as soon as there is a byte; empty at the deadline. Throws AgentError once the device has gone. */
  read(timeoutMs: number, signal: AbortSignal): Promise<Uint8Array>;
}

export type OpenSerialLine = (
  path: string,
  settings: { readonly baud: number; readonly parity: 'none' | 'even' },
  signal: AbortSignal,
) => Promise<SerialLine>;
