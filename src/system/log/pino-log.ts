import { fstatSync } from 'node:fs';
import { isatty } from 'node:tty';

import { destination, pino, stdTimeFunctions, symbols } from 'pino';

import type { Environment } from '../processes/environment.ts';
import type { Log, LogFields, LogLevel } from './log.ts';
import { escapedJson, printable } from './printable.ts';
import { MASK, cutText, isSecretKey, maskAddresses } from './secrets.ts';

export interface LogSettings {
  readonly level: LogLevel;
  /** `auto` and `text`: lines with a priority where the journal reads them, short ones on a terminal. */
  readonly format: 'auto' | 'text' | 'json';
  /** The file descriptor to write to. Default: standard error. */
  readonly descriptor?: number;
}

/**
 * A log on standard error that is written before the call returns, without a thread of its own. Guarantee `secrecy`:
 * secrets are hidden by the names of their fields, and in addresses wherever they stand.
 */
export function createLog({ level, format, descriptor = 2 }: LogSettings, environment: Environment): Log {
  const output = destination({ fd: descriptor, sync: true });
  output.on('error', () => {}); // the agent continues if the reader of the log is gone
  const options = {
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const json = { write: (line: string) => output.write(escapedJson(line)) };
  const lines = format === 'json' ? json : new TextLines(output, textStyle(descriptor, environment));
  const logger = pino(options, lines);
  const write =
    (severity: LogLevel) =>
    (fields: LogFields, message: string): void =>
      logger[severity](hideSecrets(fields), shown(message));
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

/** The bound for a message, and for each field. */
const MAX_TEXT_LENGTH = 4_096;

function shown(text: string): string {
  return maskAddresses(cutText(text, MAX_TEXT_LENGTH));
}

function hideSecrets(fields: LogFields): LogFields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      if (isSecretKey(name) && value !== undefined) return [name, MASK];
      return [name, typeof value === 'string' ? shown(value) : value];
    }),
  );
}

/** Recognizes the journal by $JOURNAL_STREAM, which holds the device and inode of its pipe (systemd.exec(5)). */
function textStyle(descriptor: number, environment: Environment): TextStyle {
  const { dev, ino } = fstatSync(descriptor, { bigint: true });
  if (environment['JOURNAL_STREAM'] === `${dev}:${ino}`) return 'journal';
  return isatty(descriptor) ? 'terminal' : 'plain';
}

/** Writes lines of text instead of JSON. By this symbol, pino tells a destination what it is about to write. */
class TextLines {
  readonly [symbols.needsMetadataGsym] = true;
  readonly #output: { write(line: string): unknown };
  readonly #style: TextStyle;
  lastLevel = 0;
  lastMsg = '';
  lastObj: LogFields = {};

  constructor(output: { write(line: string): unknown }, style: TextStyle) {
    this.#output = output;
    this.#style = style;
  }

  write(): void {
    const entry = { at: new Date(), level: levelOf(this.lastLevel), message: this.lastMsg, fields: this.lastObj };
    this.#output.write(`${formatLine(this.#style, entry)}\n`);
  }
}

/** The level of a pino severity number. */
function levelOf(severity: number): LogLevel {
  if (severity >= 50) return 'error';
  if (severity >= 40) return 'warn';
  return severity >= 30 ? 'info' : 'debug';
}

/**
 * The reader of the lines: the journal adds the time and reads the priority; on a terminal, a user follows them live.
 */
type TextStyle = 'journal' | 'terminal' | 'plain';

/** The priorities of syslog, as in sd-daemon(3). */
const priorities: Readonly<Record<LogLevel, number>> = { debug: 7, info: 6, warn: 4, error: 3 };

interface LogEntry {
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
