import { maxValueDepth, nestedWithin } from '../system/json-value.ts';
import { TelemetryError } from './errors.ts';

/** The bound for one value as JSON. */
const MAX_VALUE_BYTES = 64 * 1024;
const MAX_NAME_LENGTH = 256;

/** A value as JSON. Throws TelemetryError `value-invalid`. */
export function toText(value: unknown): string {
  if (typeof value === 'number' && Number.isFinite(value)) return String(value);
  if (!nestedWithin(value)) {
    throw new TelemetryError('value-invalid', `this value is nested deeper than ${maxValueDepth} levels`);
  }
  const text = stringify(value);
  if (text === undefined) throw new TelemetryError('value-invalid', 'this value cannot be written as JSON');
  if (Buffer.byteLength(text) > MAX_VALUE_BYTES) {
    throw new TelemetryError('value-invalid', `this value is longer than ${MAX_VALUE_BYTES} bytes`);
  }
  return text;
}

/** Checks the name of an event or a property. Throws TelemetryError `value-invalid`. */
export function checkName(name: string): string {
  if (name === '' || name.length > MAX_NAME_LENGTH) {
    throw new TelemetryError('value-invalid', `a name has 1 to ${MAX_NAME_LENGTH} characters`);
  }
  return name;
}

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, (_, part: unknown) => {
      if (typeof part !== 'number' || Number.isFinite(part)) return part;
      throw new TelemetryError('value-invalid', `JSON has no ${part}`);
    });
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}
