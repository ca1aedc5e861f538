import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { PlainTextKernel } from '../../../../src/firmware/text/plain-text-kernel.ts';
import { openTextKernel, VectorTextKernel } from '../../../../src/firmware/text/text-kernel.ts';

const vector = new VectorTextKernel();
const plain = new PlainTextKernel();
const parts = [
  '\\/',
  '\\n',
  '\\u0041',
  '\\u000a',
  '\\u000A',
  '\\u0001',
  '\\u007f',
  '\\u0100',
  '\\',
  '\\u00',
  '"',
  ' ',
  'a',
  'Zz+/=',
];
const escaped = fc.array(fc.oneof(fc.constantFrom(...parts), fc.string({ maxLength: 30 })), { maxLength: 30 });

describe('the text kernel', () => {
  test('finds the same characters with vectors and without', () => {
    fc.assert(
      fc.property(fc.constantFrom('', '\\', '\\u', '\\u004'), escaped, (unfinished, pieces) => {
        const given = [Buffer.from(unfinished), Buffer.from(pieces.join(''), 'latin1')] as const;
        const [one, other] = [vector.unescape(...given), plain.unescape(...given)];
        expect({ ...other, text: other.text.toString('latin1') }).toEqual({
          ...one,
          text: one.text.toString('latin1'),
        });
      }),
      { numRuns: 500 },
    );
  });

  test('does without vectors where the processor has none', () => {
    expect(openTextKernel(false)).toBeInstanceOf(PlainTextKernel);
    expect(openTextKernel(true)).toBeInstanceOf(VectorTextKernel);
  });
});
