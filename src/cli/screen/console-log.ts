import type { Log, LogFields } from '../../system/log/log.ts';
import { cutText, isSecretKey, MASK, maskAddresses } from '../../system/log/secrets.ts';
import type { TextOutput } from '../context.ts';
import { renderParagraph } from './layout.ts';
import type { Page } from './page.ts';

const MAX_TEXT_LENGTH = 600;

/**
 * Prints warnings and errors of the log to the terminal, followed by the fields that the message does not contain. A
 * line that repeats the previous one is omitted.
 */
export function consoleLog(err: TextOutput, page: () => Page): Log {
  let last = '';
  const speak = (fields: LogFields, message: string): void => {
    const sentence = shown(message);
    const details = Object.entries(fields).flatMap((field) => describe(field, sentence));
    const behind = details.length === 0 ? '' : ` (${details.join(', ')})`;
    const line = `agent: ${sentence}${behind}`;
    if (line !== last) err.write(renderParagraph(line, page()));
    last = line;
  };
  return { debug: () => {}, info: () => {}, warn: speak, error: speak };
}

function shown(text: string): string {
  return maskAddresses(cutText(text, MAX_TEXT_LENGTH));
}

/** Omits fields that the message already contains, and waiting times. */
function describe([name, value]: readonly [string, LogFields[string]], sentence: string): readonly string[] {
  if (value === undefined || name.endsWith('Ms')) return [];
  const text = isSecretKey(name) ? MASK : shown(String(value));
  if (sentence.includes(text)) return [];
  return [name === 'code' ? text : `${name}: ${text}`];
}
