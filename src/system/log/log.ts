/** What a log line may carry. Never a secret: keys, passwords and URLs with a query stay out. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Four levels, fields first, one short sentence after them. Passed as a parameter, never global. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
