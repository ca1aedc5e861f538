export interface LineSettings {
  readonly baud: number;
  readonly parity: 'none' | 'even';
}

export interface ModemLines {
  readonly dtr: boolean;
  readonly rts: boolean;
}

/**
 * A serial line, held exclusively. It moves bytes and knows nothing of what they mean. Every method throws McuError
 * `port-unplugged` once the port has gone.
 */
export interface Line extends AsyncDisposable {
  readonly name: string;
  readonly baud: number;
  /** Start, data, parity and stop bits. */
  readonly bitsPerCharacter: number;
  /** Takes all bytes; they may still be under way when it returns. */
  write(bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  /** What has arrived, as soon as there is a byte; empty at the deadline. */
  read(timeoutMs: number, signal: AbortSignal): Promise<Uint8Array>;
  /** Both lines at once. False where the port has none. */
  setModem(lines: ModemLines, signal: AbortSignal): Promise<boolean>;
  setBaud(baud: number, signal: AbortSignal): Promise<void>;
}

export type OpenLine = (settings: LineSettings, signal: AbortSignal) => Promise<Line>;

/** At this path. */
export type OpenPort = (path: string, settings: LineSettings, signal: AbortSignal) => Promise<Line>;
