import type { Log, LogFields } from '../../../src/system/log/log.ts';

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: LogFields;
  readonly message: string;
}

/** Stores log entries. */
export class RecordingLog implements Log {
  readonly lines: LogLine[] = [];

  debug(fields: LogFields, message: string): void {
    this.lines.push({ level: 'debug', fields, message });
  }

  info(fields: LogFields, message: string): void {
    this.lines.push({ level: 'info', fields, message });
  }

  warn(fields: LogFields, message: string): void {
    this.lines.push({ level: 'warn', fields, message });
  }

  error(fields: LogFields, message: string): void {
    this.lines.push({ level: 'error', fields, message });
  }
}
