import { FirmwareFormatError } from '../../../../src/firmware/errors.ts';
import { FirmwareTextDecoder } from '../../../../src/firmware/text/firmware-text.ts';
import { fail } from '../verdict.ts';

/** Decodes a text as the agent does. Its methods throw a failure if the text is wrong. */
export function textDecoder(): { readonly push: (chunk: Uint8Array) => void; readonly finish: () => void } {
  const decoder = new FirmwareTextDecoder('auto');
  return { push: (chunk) => exhaust(decoder.push(chunk)), finish: () => exhaust(decoder.finish()) };
}

/** Violations of the interface, which states one JSON string. It does not name the encoding. */
const STATED: ReadonlySet<string> = new Set([
  'text-truncated',
  'text-not-a-string',
  'text-bad-escape',
  'text-trailing',
]);

function acceptedInstead({ code }: FirmwareFormatError): string | undefined {
  return STATED.has(code) ? undefined : 'base64, base64url and hexadecimal digits, with or without line breaks';
}

function exhaust(slices: Iterable<Uint8Array>): void {
  try {
    // the bytes of the firmware do not matter here, only that the text has some
    for (const slice of slices) if (slice.byteLength === 0) continue;
  } catch (error) {
    if (error instanceof FirmwareFormatError) fail(error.message, acceptedInstead(error));
    throw error;
  }
}
