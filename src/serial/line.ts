export const parities = ['none', 'even', 'odd'] as const;
export type Parity = (typeof parities)[number];

export interface LineSettings {
  readonly baud: number;
  readonly parity: Parity;
}

export interface ModemLines {
  readonly dtr: boolean;
  readonly rts: boolean;
}

/**
 * A serial line, held exclusively. It moves bytes without knowing their meaning. Every method throws SerialError
 * `port-disconnected` once the port has gone.
 */
export interface Line extends AsyncDisposable {
  readonly name: string;
  readonly baud: number;
  /** Start, data, parity and stop bits. */
  readonly bitsPerCharacter: number;
  /** Accepts all bytes; they may still be on their way when it returns. */
  write(bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  /** The bytes that have arrived, as soon as there is one; empty at the deadline. */
  read(timeoutMs: number, signal: AbortSignal): Promise<Uint8Array>;
  /** Sets both modem lines in one call. Returns false if the port has none. */
  setModem(lines: ModemLines, signal: AbortSignal): Promise<boolean>;
  setBaud(baud: number, signal: AbortSignal): Promise<void>;
}

/** The part of a line that is lent to a data source, which only listens and polls. */
export type LeasedLine = Pick<Line, 'write' | 'read' | typeof Symbol.asyncDispose>;

export type OpenLine = (settings: LineSettings, signal: AbortSignal) => Promise<Line>;

/** Opens the port at this path. */
export type OpenPort = (path: string, settings: LineSettings, signal: AbortSignal) => Promise<Line>;
