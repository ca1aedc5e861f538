import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { parseAutoboot, withPartitions } from '../../../../../src/slots/bootloaders/tryboot/autoboot-text.ts';
import { chosenPartition } from './tryboot-rig.ts';

const ours = fc.constantFrom(
  'boot_partition=2',
  'boot_partition=3',
  'boot_partition=1',
  'tryboot_a_b=1',
  'tryboot_a_b=0',
);
/** Texts that one reader accepts as a setting or a filter and another does not. */
const unclear = fc.constantFrom(
  '\rboot_partition=3',
  ' boot_partition=2',
  'boot_partition =2',
  'BOOT_PARTITION=3',
  '\ttryboot_a_b=1',
  ' [tryboot]',
  '[ALL]',
  '[all] all of them',
);
const foreign = fc.constantFrom('', '# a comment', 'foo=bar', '#boot_partition=9', 'boot_partition_x=4', '  ');
const filters = fc.constantFrom('[all]', '[tryboot]', '[none]');
const texts = fc
  .tuple(
    fc.array(fc.oneof(ours, foreign, filters, unclear), { maxLength: 16 }),
    fc.constantFrom('\n', '\r\n'),
    fc.boolean(),
  )
  .map(([lines, end, ended]) => lines.join(end) + (ended ? end : ''));
const partitions = fc.integer({ min: 1, max: 255 });

describe('the text of autoboot.txt', () => {
  test('means what the firmware makes of it', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const { partition, trialPartition, partitionsAreTried } = parseAutoboot(text);
        expect(partition ?? 0).toBe(chosenPartition(text, false));
        fc.pre(partitionsAreTried);
        expect(trialPartition ?? 0).toBe(chosenPartition(text, true));
      }),
    );
  });

  test('has the requested value after an edit of any text', () => {
    fc.assert(
      fc.property(texts, partitions, partitions, (text, partition, trialPartition) => {
        const edited = withPartitions(text, partition, trialPartition);
        expect(parseAutoboot(edited)).toMatchObject({ partition, trialPartition, partitionsAreTried: true });
        expect(withPartitions(edited, partition, trialPartition)).toBe(edited);
      }),
    );
  });

  test('keeps every line that is not about partitions, in its order', () => {
    const strange = (text: string) =>
      text
        .split(/\r?\n/)
        .filter((line) => line.trim() !== '' && !/^\s*(boot_partition\s*=|tryboot_a_b\s*=|\[)/i.test(line));
    fc.assert(
      fc.property(texts, (text) => {
        expect(strange(withPartitions(text, 2, 3))).toEqual(strange(text));
      }),
    );
  });

  test('keeps its length and its shape when two partitions are swapped', () => {
    const text = '# A/B\n[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=3\n\n\n';
    expect(withPartitions(text, 3, 2)).toBe(text.replace('n=2', 'n=x').replace('n=3', 'n=2').replace('n=x', 'n=3'));
  });

  test('that sets the trial before the default is put in order', () => {
    const text = '[tryboot]\nboot_partition=3\n[all]\ntryboot_a_b=1\nboot_partition=2\n';
    expect(parseAutoboot(text).trialPartition).toBe(2);
    expect(parseAutoboot(withPartitions(text, 2, 3)).trialPartition).toBe(3);
  });

  test('names the filter that it does not know, if it matters', () => {
    expect(parseAutoboot('[pi5]\nfoo=1\n').unknownFilter).toBeUndefined();
    expect(parseAutoboot('[pi5]\nboot_partition=2\n').unknownFilter).toBe('pi5');
  });
});
