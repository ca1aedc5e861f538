import { undefinedIfThrows } from '../system/errors.ts';
import { maxValueDepth, nestedWithin } from '../system/json-value.ts';
import { TelemetryError } from './errors.ts';

/** The bound for one value as JSON. */
const MAX_VALUE_BYTES = 64 * 1024;
const MAX_NAME_LENGTH = 256;

/** A value as JSON, in which a NaN within an object is null. Throws TelemetryError `value-invalid`. */
export function toText(value: unknown): string {
  if (typeof value === 'number' && Number.isFinite(value)) return String(value);
  if (typeof value === 'number') throw new TelemetryError('value-invalid', `JSON has no ${value}`);
  if (!nestedWithin(value)) {
    throw new TelemetryError('value-invalid', `this value is nested deeper than ${maxValueDepth} levels`);
  }
  const isTypeError = (error: unknown): boolean => error instanceof TypeError;
  const text = undefinedIfThrows<string | undefined>(isTypeError, () => JSON.stringify(value));
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
