/** The fields of a log line. Guarantee `secrecy`: keys, passwords and URLs with a query are never among them. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** A log with four levels: the fields first, then one short sentence. It is passed as a parameter, never global. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
