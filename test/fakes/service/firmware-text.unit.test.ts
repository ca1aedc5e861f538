import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { bufferContent, changedContent, randomContent } from './firmware-content.ts';
import { FirmwareText, plainStyle } from './firmware-text.ts';

const size = fc.oneof(fc.nat(100), fc.constantFrom(49_151, 49_152, 49_153, 100_000));
const style = fc.record({
  encoding: fc.constantFrom('base64' as const, 'base64url' as const, 'hex' as const),
  padding: fc.boolean(),
  lineLength: fc.constantFrom(0, 4, 64, 76),
  escapes: fc.constantFrom('none' as const, 'solidus' as const, 'unicode' as const, 'mixed' as const),
  surroundings: fc.constantFrom('', '\r\n\t '),
});

describe('encoded firmware', () => {
  test('is a JSON string that decodes to the firmware, in every style', () => {
    fc.assert(
      fc.property(size, style, (sizeBytes, how) => {
        const content = randomContent(sizeBytes);
        const text = new FirmwareText(content, how);
        const whole = Buffer.concat([...text.read()]);
        expect(whole.byteLength).toBe(text.sizeBytes);
        const encoded = (JSON.parse(whole.toString()) as string).replaceAll('\n', '');
        expect(Buffer.from(encoded, how.encoding).equals(content.read(0, sizeBytes))).toBe(true);
      }),
      { numRuns: 30 },
    );
  });

  test('can be read at any place', () => {
    fc.assert(
      fc.property(size, style, fc.nat(), fc.nat(), (sizeBytes, how, one, two) => {
        const text = new FirmwareText(randomContent(sizeBytes), how);
        const whole = Buffer.concat([...text.read()]);
        const [first = 0, end = 0] = [one % (text.sizeBytes + 1), two % (text.sizeBytes + 1)].sort((a, b) => a - b);
        expect(Buffer.concat([...text.read(first, end)]).equals(whole.subarray(first, end))).toBe(true);
      }),
      { numRuns: 30 },
    );
  });

  test('can be read from each place to each other, its surroundings included', () => {
    const text = new FirmwareText(randomContent(5), { ...plainStyle, surroundings: ' \n' });
    const whole = Buffer.concat([...text.read()]);
    for (let first = 0; first <= whole.byteLength; first += 1) {
      for (let end = first; end <= whole.byteLength; end += 1) {
        expect(Buffer.concat([...text.read(first, end)])).toEqual(whole.subarray(first, end));
      }
    }
  });

  test('of many gibibytes is made only where it is read', () => {
    const sizeBytes = 3 * 2 ** 33;
    const text = new FirmwareText(randomContent(sizeBytes));
    expect(text.sizeBytes).toBe((sizeBytes / 3) * 4 + 2);
    const [last] = [...text.read(text.sizeBytes - 5)].slice(-1);
    expect(last?.toString()).toBe('"');
  });

  test('refuses a line length that would cut a group', () => {
    expect(() => new FirmwareText(bufferContent(Buffer.alloc(1)), { ...plainStyle, lineLength: 77 })).toThrow(
      RangeError,
    );
  });
});

describe('content', () => {
  test('that looks random is the same wherever the reading begins', () => {
    const content = randomContent(1_000, 7);
    expect(content.read(0, 1_000).subarray(333, 700).equals(content.read(333, 367))).toBe(true);
    expect(content.read(0, 1_000).equals(randomContent(1_000, 8).read(0, 1_000))).toBe(false);
  });

  test('that was changed differs in one byte', () => {
    const content = randomContent(1_000);
    const changed = changedContent(content, 500);
    const differing = [...content.read(0, 1_000)].filter((byte, index) => byte !== changed.read(index, 1)[0]);
    expect(differing).toHaveLength(1);
  });
});
