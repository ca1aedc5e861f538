import fc from 'fast-check';
import { expect, test } from 'vitest';

import { LineSplitter } from '../../../../src/telemetry/sources/line-splitter.ts';
import { atPointer, parsePairs, parseReading } from '../../../../src/telemetry/sources/parse-reading.ts';
import { parseLine } from '../../../../src/telemetry/sources/serial.ts';

test.each([
  ['21.5\n', 21.5],
  ['21.5 C', 21.5],
  ['21.5 °C', 21.5],
  ['21.5\u00A0°C\n', 21.5],
  ['12 m3/h', 12],
  ['9.81 m/s2', 9.81],
  ['+3', 3],
  ['{"a": [1]}', { a: [1] }],
  ['"text"', 'text'],
  ['on', 'on'],
  ['12abc', '12abc'],
  ['1 234.5', '1 234.5'],
  ['12\u202F345', '12\u202F345'],
  ['0.52 0.58 0.59 1/389', '0.52 0.58 0.59 1/389'],
  ['100\n200', '100\n200'],
  ['3 sensors not found', '3 sensors not found'],
  ['2026 Nov 27 21.5', '2026 Nov 27 21.5'],
  ['2 -3', '2 -3'],
  ['21.5 T=3', '21.5 T=3'],
  ['nan', Number.NaN],
  ['-NaN\n', Number.NaN],
  ['inf', Number.NaN],
  ['-Infinity', Number.NaN],
  ['{"NaN": ["-inf", NaN, -inf, 1]}', { NaN: ['-inf', null, null, 1] }],
  [String.raw`{"a\"NaN": "\\", "b": Infinity}`, { 'a"NaN': '\\', b: null }],
  ['{"a": 1NaN}', '{"a": 1NaN}'],
  ['{"a": "NaN', '{"a": "NaN'],
  ['nano', 'nano'],
  ['"nan"', 'nan'],
  [' \n', undefined],
])('%j is read as %j', (text, value) => {
  expect(parseReading(text)).toEqual(value);
});

const words = ['3 errors', '2 failed', '4 ok', '5 of', '1 warning', '3 sensors', '3 at', '3 in', '5 M', '1 to/s'];
test.each([...words, '12 ok\n', '1 V;', '12 (W)'])('refuses %j for its unknown unit', (text) => {
  expect(() => parseReading(text)).toThrow(`no known unit follows: ${JSON.stringify(text.trim())}`);
});

const units =
  '% %RH °C °F K mV kΩ µA \u03BCA hPa mbar kWh kvarh VA Hz rpm lx ppm m³ m3/h L/min km/h µg/m³ µS/cm W/m² N·m dBm kB MiB min';
test.each(units.split(' '))('reads a number before %s', (unit) => {
  expect(parseReading(`950 ${unit}`)).toBe(950);
});

// Regression: a message of 100 bytes stopped the daemon, since a pattern tried both spellings of each factor.
test('refuses a product of a thousand units without delay', () => {
  const product = 'GB/'.repeat(1_000);
  expect(parseReading(`1 ${product}s`)).toBe(1);
  expect(() => parseReading(`1 ${product}!`)).toThrow('no known unit follows');
});

test('refuses another unit than the first one of the source', () => {
  const known = new Map<string, string>();
  const read = (text: string) => parseReading(text, known);
  expect([read('950 mV'), read('960 mV'), read('970')]).toEqual([950, 960, 970]);
  expect(() => read('1.02 V')).toThrow('the unit was mV before: "1.02 V"');
  expect(() => read('1.03 V')).toThrow('the unit was mV before: "1.03 V"');
  expect(read('940 mV')).toBe(940);
});

test('compares the units of each named group of a pattern', () => {
  const known = new Map<string, string>();
  const read = (text: string) => parseLine(text, /^(?<u>\S+ \S+), (?<i>\S+ \S+)$/, known);
  expect(read('950 mV, 2 A')).toEqual({ u: 950, i: 2 });
  expect(() => read('950 mV, 900 mA')).toThrow('the unit was A before: "900 mA"');
});

test.each([
  ['9007199254740993', '9007199254740993'],
  ['-18446744073709551615', '-18446744073709551615'],
  ['18446744073709551615 Wh', '18446744073709551615'],
  ['+0009007199254740993', '9007199254740993'],
  ['{"id": 9007199254740993, "x": [1e400]}', '{"id":9007199254740993,"x":[1e400]}'],
  ['id=9007199254740993 x=1', '{"id":9007199254740993,"x":1}'],
])('%s keeps its digits', (text, json) => {
  expect(JSON.stringify(parsePairs(text) ?? parseReading(text))).toBe(json);
});

test('reads pairs with their kinds, and rejects anything else', () => {
  expect(parsePairs('t=21.5, h=40;state=ok')).toEqual({ t: 21.5, h: 40, state: 'ok' });
  expect(parsePairs('t=21.5 h=nan')).toEqual({ t: 21.5, h: Number.NaN });
  expect(parsePairs('booting v2')).toBeUndefined();
});

test.each([
  ['T=21.5 H=40', undefined, { T: 21.5, H: 40 }],
  ['{"t": 1}', undefined, { t: 1 }],
  ['  ', undefined, undefined],
  ['temp: 21.5C', /temp: ([\d.]+)/, 21.5],
  ['21.5C 40%', /(?<t>[\d.]+)C (?<h>\d+)%/, { t: 21.5, h: 40 }],
  ['nothing', /temp: (\d+)/, undefined],
])('of the line %j with pattern %s comes %j', (line, pattern, reading) => {
  expect(parseLine(line, pattern)).toEqual(reading);
});

test('refuses a line without a pattern that is neither JSON, pairs nor a number', () => {
  expect(() => parseLine('Booting...', undefined)).toThrow('neither JSON, pairs nor a number: "Booting..."');
});

test.each([
  ['noise in a number', Buffer.from('2\u00ff.5', 'latin1')],
  ['noise in a pair', Buffer.from('t=2\u00ff.5 h=40', 'latin1')],
  ['a binary message', Buffer.from('fffe0001', 'hex')],
])('refuses %s, which is not UTF-8', (_, bytes) => {
  expect(() => parsePairs(bytes.toString()) ?? parseReading(bytes.toString())).toThrow('not UTF-8: ');
});

// Regression: a unit in Latin-1, and the end of a frame, were taken for damage.
test.each([
  ['Dir 270\u00b0', /Dir (\d+)/, 270],
  ['270\u00b0 3.4 m/s', /^(\d+)/, 270],
  ['12.3\u00b5g/m3', /^([\d.]+)/, 12.3],
  ['\u000212.3\u000345', /([\d.]+)/, 12.3],
  ['12.3\u001d45.6', /^([\d.]+)/, 12.3],
])('reads a number of the line %j', (line, pattern, value) => {
  expect(parseLine(Buffer.from(line, 'latin1').toString(), pattern)).toBe(value);
});

// Regression: the rest of the number was sent as a reading.
test.each([
  ['T=15\u00b6.3', /T=([\d.]+)/],
  ['T=156.\u00b3', /T=([\d.]+)/],
  ['\u00b156.3', /[\d.]+/],
  ['T=15\u00b6.3 H=40', /T=(?<t>[\d.]+).*H=(?<h>\d+)/],
  ['T=15\0.3', /T=([\d.]+)/],
])('refuses the line %j, where a pattern picks a part of a damaged number', (line, pattern) => {
  expect(() => parseLine(Buffer.from(line, 'latin1').toString(), pattern)).toThrow('damaged next to the reading: ');
});

test.each([
  'T=21.5\u00b0C',
  'T=21.5 \u00b0C',
  'Z\u00e4hler T=21.5',
  '\u0002T=21.5\u0003',
  'T=21.5\u001b[0m',
  'T=21.5\0',
])('reads the line %j with a pattern', (line) => {
  expect(parseLine(Buffer.from(line, 'latin1').toString(), /T=([\d.]+)/)).toBe(21.5);
});

test('reads a number before a unit that is not UTF-8', () => {
  expect(parseReading(Buffer.from('21.5 \u00b0C', 'latin1').toString())).toBe(21.5);
});

test('drops the rest of a line that was in progress, whatever its length', () => {
  for (const [stream, lines] of [
    ['5\n26\n', ['26']],
    ['5\r\n26\r\n', ['26']],
    [`${'9'.repeat(20)}\n26\n`, ['26']],
    ['\n26\n', ['26']],
  ] as const) {
    const splitter = new LineSplitter(10, () => expect.unreachable());
    splitter.skipLine();
    expect(splitter.push(Buffer.from(stream))).toEqual(lines);
  }
});

// Regression: a device that never ended a line looked like one with nothing to report.
test('reports each minute a stream without line ends, and none whose lines end', () => {
  let nowMs = 0;
  const reports: string[] = [];
  const splitter = new LineSplitter(
    100,
    (_, why) => reports.push(why),
    () => nowMs,
  );
  const pass = (text: string, times: number): string[] =>
    Array.from({ length: times }, () => {
      nowMs += 10_000;
      return splitter.push(Buffer.from(text));
    }).flat();
  expect(pass('21.5\r\n2', 30)).toHaveLength(30);
  expect(reports).toEqual([]);
  pass('1.5 ', 15);
  const why = 'bytes in a minute without a line end: check the baud rate and the line end';
  expect(reports).toEqual([`29 ${why}`, `32 ${why}`]);
  expect(pass('\n22\n', 1)).toEqual(['22']);
});

// Regression: a stream of blank lines was silence that looked well.
test.each([
  ['\n\n \n\t\n', 4],
  ['\r\n\r\n', 2],
  ['\r\r', 2],
  ['21.5\r\n', 0],
  ['21.5\n\r21.6\n\r', 2],
])('counts blank lines, however the bytes come: %j', (stream, count) => {
  for (const chunkBytes of [1, 2, 3, 100]) {
    let blank = 0;
    const splitter = new LineSplitter(10, (reason, why, more = 0) => {
      expect([reason, why]).toEqual(['empty', 'blank lines']);
      blank += more;
    });
    for (let start = 0; start < stream.length; start += chunkBytes)
      splitter.push(Buffer.from(stream.slice(start, start + chunkBytes)));
    expect(blank).toBe(count);
  }
});

test('returns the rest without a line end', () => {
  const splitter = new LineSplitter(10, () => {});
  splitter.push(Buffer.from('1\n2'));
  expect([splitter.finish(), splitter.finish()]).toEqual(['2', '']);
});

test('a pointer finds the part that it names, and nothing else', () => {
  const reading = { a: [{ 'b/c': 1 }], '': 2 };
  expect([atPointer(reading, '/a/0/b~1c'), atPointer(reading, '/'), atPointer(reading, '')]).toEqual([1, 2, reading]);
  expect(atPointer({ n: parseReading('9007199254740993') }, '/n/rawJSON')).toBeUndefined();
  for (const pointer of ['/x', '/a/7', '/a/0/b~1c/d', '/toString']) expect(atPointer(reading, pointer)).toBeUndefined();
});

test('lines are the same however the bytes come, and a long one costs only itself', () => {
  const line = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '{'), minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat(40)), fc.constantFrom('\n', '\r\n', '\r'), (lines, cuts, end) => {
      const stream = Buffer.from(lines.map((text) => `${text}${end}`).join(''));
      const splitter = new LineSplitter(10, () => (dropped += 1));
      let dropped = 0;
      const found: string[] = [];
      let start = 0;
      for (const cut of [...cuts, stream.byteLength]) {
        found.push(...splitter.push(stream.subarray(start, start + cut)));
        start += cut;
      }
      found.push(...splitter.push(stream.subarray(start)));
      const kept = lines.filter((text) => Buffer.byteLength(text) <= 10);
      expect(found).toEqual(kept);
      expect(dropped).toBe(lines.length - kept.length);
    }),
  );
});
