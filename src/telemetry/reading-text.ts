import { maskAddresses } from '../system/log/secrets.ts';
import type { Reading } from './sources/source.ts';

const MAX_READING_LENGTH = 200;
const MAX_SAMPLE_LENGTH = 80;

/** Returns the beginning of a reading as JSON, or NaN or Infinity, or undefined if there is no reading. */
export function readingText(reading: Reading, maxLength: number = MAX_READING_LENGTH): string | undefined {
  const text = typeof reading === 'number' ? String(reading) : (JSON.stringify(reading) as string | undefined);
  if (text === undefined || text.length <= maxLength) return text;
  return `${text.slice(0, maxLength).toWellFormed()}…`;
}

/** Returns the beginning of something that came from a source, for messages. */
export function sampleOf(part: unknown): string {
  return maskAddresses(readingText(part, MAX_SAMPLE_LENGTH) ?? 'nothing');
}
