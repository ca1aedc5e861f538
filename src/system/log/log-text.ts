import type { LogFields, LogLevel } from './log.ts';
import { printable } from './printable.ts';

/**
 * The reader of the lines: the journal adds the time and reads the priority; on a terminal, a user follows them live.
 */
export type TextStyle = 'journal' | 'terminal' | 'plain';

/** The priorities of syslog, as in sd-daemon(3). */
const priorities: Readonly<Record<LogLevel, number>> = { debug: 7, info: 6, warn: 4, error: 3 };

export interface LogEntry {
  readonly at: Date;
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

/** One line of text without its line end, whatever the message and the fields contain. */
export function formatLine(style: TextStyle, { at, level, message, fields }: LogEntry): string {
  const text = printable([formatMessage(message), ...Object.entries(fields).flatMap(formatField)].join(' '));
  const word = level.padEnd(5);
  switch (style) {
    case 'journal':
      return `<${priorities[level]}>${text}`;
    case 'terminal':
      return `${at.toTimeString().slice(0, 8)} ${word} ${text}`;
    case 'plain':
      return `${at.toISOString()} ${word} ${text}`;
  }
}

/** Quotes a message in which a text from outside could pass for a field, or swallow one. */
function formatMessage(message: string): string {
  return /^(?:[^"=\\]|"[^"=\\]*")*$/.test(message) ? message : JSON.stringify(message);
}

function formatField([name, value]: readonly [string, LogFields[string]]): readonly string[] {
  if (value === undefined) return [];
  const text = String(value);
  return [`${name}=${/[\s"=]/.test(text) || text === '' ? JSON.stringify(text) : text}`];
}
