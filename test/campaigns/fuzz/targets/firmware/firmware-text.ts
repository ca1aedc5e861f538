import fc from 'fast-check';

import { AgentError } from '../../../../../src/system/errors.ts';
import {
  blank,
  cutAt,
  decodeChunks,
  encode,
  fractions,
  jsonString,
  spellings,
  variants,
} from '../../../../unit-and-integration/firmware/text/wire-text.ts';
import { hostile } from '../../mutation.ts';
import { openTarget, requireReadable } from '../../target.ts';
import type { FuzzTarget } from '../../target.ts';

const bytes = fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.integer({ min: 1, max: 100_000 }).map(longBytes));
const validText = fc
  .record({ bytes, variant: fc.constantFrom(...variants), spellings, before: blank, after: blank })
  .map((parts) => `${parts.before}${jsonString(encode(parts.bytes, parts.variant), parts.spellings)}${parts.after}`);

const cases = fc.record({
  text: hostile(validText.map((text) => Buffer.from(text, 'latin1'))),
  fractions,
  setting: fc.constantFrom('auto' as const, 'base64' as const, 'base64url' as const, 'hex' as const),
});

/** The text that a service sends: any text, in any chunks, decodes to the same bytes or to an error. */
export const firmwareText: FuzzTarget = {
  name: 'firmware-text',
  open: async () =>
    openTarget(cases, ({ text, fractions, setting }) => {
      const whole = decoded([text], setting);
      const inPieces = decoded(cutAt(text, fractions), setting);
      if (whole !== inPieces) throw new Error(`whole: ${whole.slice(0, 99)}; in pieces: ${inPieces.slice(0, 99)}`);
    }),
};

function longBytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, index) => (index * 31) ^ (index >> 8));
}

function decoded(chunks: readonly Uint8Array[], setting: Parameters<typeof decodeChunks>[1]): string {
  try {
    return decodeChunks(chunks, setting).toString('latin1');
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    requireReadable(error);
    return `${error.code}, ${error.message}`;
  }
}
