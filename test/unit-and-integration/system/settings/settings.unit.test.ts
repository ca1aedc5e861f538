import { expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';

import { allSettings, namesOf, withName } from '../../../../src/system/settings/described.ts';
import { settingsOf } from '../../../../src/system/settings/settings.ts';
import {
  byteRate,
  byteSize,
  command,
  dailyWindow,
  duration,
  text,
  utcTime,
} from '../../../../src/system/settings/values.ts';

const schema = z.strictObject({
  first_byte: duration('1s').default('1m').describe('Until it comes'),
  max_message: byteSize('1KiB', '1MiB').optional(),
  rate: byteRate('1KiB', '1MiB').optional(),
  not_before: utcTime().optional().describe('Believed from then on'),
  reboot_window: dailyWindow().optional(),
  name: text().optional().describe('A name that may look like a duration'),
  run: command(),
  below: z
    .strictObject({ key_file: text(), keep_alive: duration().describe('Long') })
    .prefault({ key_file: '/k', keep_alive: '5s' }),
  either: z
    .array(
      z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('a'), at_most: duration() }),
        z.strictObject({ kind: z.literal('b'), at_most: text() }),
      ]),
    )
    .default([]),
});

test('a table is called and counted in the program as its kinds of values say', () => {
  const written = {
    max_message: '2KiB',
    rate: '3KiB/s',
    not_before: '2026-12-31',
    reboot_window: '02:30-04:00',
    name: '5m',
    run: ['/bin/sh', '10m'],
    either: [
      { kind: 'a', at_most: '1s' },
      { kind: 'b', at_most: '1s' },
    ],
  };
  expect(settingsOf(schema, schema.parse(written))).toEqual({
    firstByteMs: 60_000,
    maxMessageBytes: 2_048,
    rateBytesPerSecond: 3_072,
    notBeforeMs: Date.UTC(2026, 11, 31),
    rebootWindow: { fromMinute: 150, toMinute: 240 },
    name: '5m',
    run: ['/bin/sh', '10m'],
    below: { keyFile: '/k', keepAliveMs: 5_000 },
    either: [
      { kind: 'a', atMostMs: 1_000 },
      { kind: 'b', atMost: '1s' },
    ],
  });
});

test('the compiler knows the same names', () => {
  const settings = settingsOf(schema, schema.parse({ run: ['/bin/sh'] }));
  expectTypeOf(settings).toEqualTypeOf<{
    readonly firstByteMs: number;
    readonly maxMessageBytes: number | undefined;
    readonly rateBytesPerSecond: number | undefined;
    readonly notBeforeMs: number | undefined;
    readonly rebootWindow: { readonly fromMinute: number; readonly toMinute: number } | undefined;
    readonly name: string | undefined;
    readonly run: readonly [string, ...string[]];
    readonly below: { readonly keyFile: string; readonly keepAliveMs: number };
    readonly either: readonly (
      | { readonly kind: 'a'; readonly atMostMs: number }
      | { readonly kind: 'b'; readonly atMost: string }
    )[];
  }>();
  expect(Object.keys(settings)).toContain('maxMessageBytes'); // what is left out is there, as undefined
});

const list = [
  { name: 'one', settings: { shared: text(), of_one: text() } },
  { name: 'two', settings: { shared: text() } },
] as const;

test('a list of described items yields names, members and settings', () => {
  expect(namesOf(list)).toEqual(['one', 'two']);
  expect(withName(list, 'two')).toBe(list[1]);
  expect(Object.keys(allSettings(list))).toEqual(['shared', 'of_one']);
  expectTypeOf(allSettings(list)).toHaveProperty('of_one');
});
