import { describe, expect, test } from 'vitest';

import type { Config } from '../../../src/config/config.ts';
import { resolveConfig } from '../../../src/config/config.ts';
import { idleSettings } from '../../../src/config/cross-check/idle-settings.ts';
import { examineConfig, parseConfig as parseFile } from '../../../src/config/read-config.ts';
import { leastConfig, problemsOf } from './config-texts.ts';

function parseConfig(text: string): Config {
  return resolveConfig(parseFile('config.toml', `${leastConfig}\n${text}`));
}

test('one source may feed several events and properties', () => {
  const { measurements } = parseConfig(`
[[sensors]]
every = "5s"
source = { kind = "modbus-tcp", host = "10.0.0.7", address = 30, type = "f32", word_order = "little" }
ignore = [-1e4, 32768]
outputs = [
  { event = "power", priority = "urgent", pointer = "/p", scale = 0.1, deadband_percent = 5, heartbeat = "10m" },
  { property = "power", aggregate_window = "1m", aggregate = "max" },
]`);
  expect(measurements).toEqual([
    {
      name: 'sensors[0]',
      everyMs: 5_000,
      timeoutMs: 10_000,
      ignore: [-10_000, 32_768],
      source: {
        kind: 'modbus-tcp',
        host: '10.0.0.7',
        port: 502,
        unit: 1,
        table: 'holding',
        address: 30,
        type: 'f32',
        byteOrder: 'big',
        wordOrder: 'little',
      },
      outputs: [
        {
          to: { kind: 'event', event: 'power', class: 'urgent' },
          pointer: '/p',
          reduction: {
            scale: 0.1,
            offset: undefined,
            deadband: { kind: 'relative', value: 0.05 },
            heartbeatMs: 600_000,
            over: undefined,
          },
        },
        {
          to: { kind: 'property', id: 'power' },
          pointer: '',
          reduction: {
            scale: undefined,
            offset: undefined,
            deadband: undefined,
            heartbeatMs: undefined,
            over: { periodMs: 60_000, aggregate: 'max' },
          },
        },
      ],
    },
  ]);
});

test.each([
  ['exec', 'command = ["/usr/bin/meter"], stream = true'],
  ['mqtt', 'url = "mqtt://localhost", topic = "a/+/b"'],
  ['modbus-rtu', 'port = "/dev/ttyUSB0", address = 0'],
  ['thermal', 'zone = "cpu-thermal"'],
  ['iio', 'device = "bme280", channel = "in_temp"'],
  ['w1', 'device = "28-1"'],
  ['serial', 'port = "/dev/ttyACM0", pattern = "t=(\\\\d+)"'],
  ['gpio', 'chip = "gpiochip0", line = 4'],
  ['file', 'path = "/run/level"'],
  ['system', 'metric = "load1"'],
])('knows the source %s', (kind, settings) => {
  const text = `[[properties]]\nid = "p"\nevery = "1m"\nsource = { kind = "${kind}", ${settings} }`;
  expect(parseConfig(text).measurements[0]?.source.kind).toBe(kind);
});

test.each([
  'address = 65535',
  'address = 65534, type = "f32"',
  'address = 65532, type = "u64"',
  'address = 65535, table = "coil"',
])('accepts the last Modbus %s', (settings) => {
  const text = `[[properties]]\nid = "p"\nevery = "1m"\nsource = { kind = "modbus-tcp", host = "h", ${settings} }`;
  expect(parseConfig(text).measurements).toHaveLength(1);
});

test.each([
  [false, 'mqtt', 'url = "mqtt://localhost", topic = "a"'],
  [false, 'serial', 'port = "/dev/ttyACM0"'],
  [false, 'exec', 'command = ["/usr/bin/meter"], stream = true'],
  [true, 'exec', 'command = ["/usr/bin/meter"]'],
  [true, 'file', 'path = "/run/level"'],
])('requires an interval (%s) for a source of kind %s with %s', (isMissing, kind, settings) => {
  const source = `source = { kind = "${kind}", ${settings} }`;
  for (const table of [`[[properties]]\nid = "p"\n${source}`, `[[sensors]]\nevent = "p"\n${source}`]) {
    const name = `${table.startsWith('[[p') ? 'properties' : 'sensors'}[0].every`;
    const problem = `${name} is missing: expected a duration such as "10s", since this source is read at intervals`;
    const problems = isMissing ? problemsOf(`${leastConfig}\n${table}`) : [];
    expect(problems.map((found) => found.includes(problem))).toEqual(isMissing ? [true] : []);
    expect(isMissing || parseConfig(table).measurements[0]?.everyMs === undefined).toBe(true);
  }
});

test.each([
  ['exec', 'command = ["/usr/bin/meter"], stream = true, idle_timeout = "30s"', 30_000],
  ['mqtt', 'url = "mqtt://localhost", topic = "a", idle_timeout = "1h"', 3_600_000],
  ['mqtt', 'url = "mqtt://localhost", topic = "a"', undefined],
])('a source %s with %s is given up after %s ms of silence', (kind, settings, idleTimeoutMs) => {
  const text = `[[properties]]\nid = "p"\nevery = "1m"\nsource = { kind = "${kind}", ${settings} }`;
  expect(parseConfig(text).measurements[0]?.source).toMatchObject({ idleTimeoutMs });
});

test.each([
  [
    '[[sensors]]\nevery = "1s"\nsource = { kind = "system", metric = "load1" }',
    'sensors[0]: name an event, or outputs',
  ],
  [
    '[[sensors]]\nevery = "1s"\noutputs = [{ event = "e", property = "p" }]\nsource = { kind = "system", metric = "load1" }',
    'name an event or a property',
  ],
  [
    '[[properties]]\nid = "p"\nevery = "1s"\ndeadband = 1\ndeadband_percent = 1\nsource = { kind = "system", metric = "load1" }',
    'exclude each other',
  ],
  [
    '[[properties]]\nid = "p"\nevery = "1s"\nsource = { kind = "serial", port = "/dev/x", pattern = "(" }',
    'a regular expression',
  ],
  [
    '[[sensors]]\nevery = "1s"\nevent = "e/{topic}"\nsource = { kind = "system", metric = "load1" }',
    'sensors[0]: only a source of kind "mqtt" has a {topic}',
  ],
  [
    '[[properties]]\nid = "{topic}"\nevery = "1s"\nsource = { kind = "system", metric = "load1" }',
    'properties[0]: only a source of kind "mqtt" has a {topic}',
  ],
  [
    '[[properties]]\nid = "p"\nevery = "1s"\nsource = { kind = "modbus-tcp", host = "h", address = 65535, type = "u32" }',
    'properties[0].source.address: expected an address whose last register is at most 65535',
  ],
  [
    '[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "modbus-rtu", port = "/dev/x", address = 65533, type = "f64" }',
    'sensors[0].source.address: expected an address whose last register is at most 65535',
  ],
  [
    '[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "modbus-tcp", host = "h", table = "coil", address = 1, type = "u32" }',
    'sensors[0].source.type: expected no type for a coil or a discrete input',
  ],
  [
    '[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "modbus-rtu", port = "/dev/x", unit = 0, address = 1 }',
    'sensors[0].source.unit: expected a unit from 1 to 255, since no unit replies to the broadcast address 0',
  ],
  ['[telemetry]\nwrite_intrval = "1s"', 'write_interval'],
])('refuses %j', (text, why) => {
  expect(problemsOf(`${leastConfig}\n${text}`).join('\n')).toContain(why);
});

// Regression: these were accepted without a warning.
test.each([
  ['sensors', 'heartbeat = "1m"', '.heartbeat has no effect without deadband or deadband_percent'],
  ['sensors', 'aggregate = "mean"', '.aggregate has no effect without aggregate_window'],
  ['sensors', 'outputs = [{ property = "p", priority = "bulk" }]', '.outputs[0].priority has no effect without event'],
  [
    'sensors',
    'outputs = [{ event = "f", heartbeat = "1m" }]',
    '.outputs[0].heartbeat has no effect without deadband or',
  ],
  ['properties', 'heartbeat = "1m"', '.heartbeat has no effect without deadband or deadband_percent'],
  [
    'sensors',
    'timeout = "10s"\nsource = { kind = "mqtt", url = "mqtt://b", topic = "a" }',
    '.timeout has no effect without',
  ],
  [
    'sensors',
    'every = "1m"\nsource = { kind = "exec", command = ["/x"], stream = true }',
    '.every has no effect without',
  ],
  [
    'sensors',
    'source = { kind = "exec", command = ["/x"], idle_timeout = "1m" }',
    '.source.idle_timeout has no effect',
  ],
  [
    'properties',
    'source = { kind = "modbus-tcp", host = "h", address = 1, word_order = "big" }',
    '.source.word_order has no effect without a type of 32 or 64 bits',
  ],
  [
    'properties',
    'source = { kind = "modbus-tcp", host = "h", address = 1, table = "coil", byte_order = "little" }',
    '.source.byte_order has no effect without a table of registers',
  ],
  [
    'sensors',
    'deadband = 1\nheartbeat = "1m"\naggregate_window = "1m"\naggregate = "min"\npriority = "bulk"',
    undefined,
  ],
  ['sensors', 'source = { kind = "mqtt", url = "mqtt://b", topic = "a", idle_timeout = "1m" }', undefined],
  [
    'properties',
    'source = { kind = "modbus-tcp", host = "h", address = 1, type = "f32", word_order = "big" }',
    undefined,
  ],
])('warns of settings without effect: [[%s]] %s', (table, settings, expected) => {
  const name = table === 'sensors' ? 'event = "e"' : 'id = "p"';
  const source = settings.includes('source =') ? '' : 'source = { kind = "system", metric = "load1" }';
  const every = settings.includes('every') || /mqtt|stream/.test(settings) ? '' : 'every = "1m"';
  const text = `${leastConfig}\n[[${table}]]\n${[name, every, settings, source].join('\n')}`;
  const { file, input } = examineConfig('config.toml', text);
  const found = file === undefined ? ['invalid'] : idleSettings(file, input).map(({ message }) => message);
  expect(found).toHaveLength(expected === undefined ? 0 : 1);
  expect(found.join('')).toContain(expected === undefined ? '' : `${table}[0]${expected}`);
});

test('warns of settings of a sensor that are only for its event', () => {
  const source = 'source = { kind = "system", metric = "load1" }';
  const text = `[[sensors]]\nevery = "1m"\nscale = 2\npriority = "normal"\noutputs = [{ event = "e" }]\n${source}`;
  const { file, input } = examineConfig('config.toml', `${leastConfig}\n${text}`);
  expect(file && idleSettings(file, input).map(({ message }) => message)).toEqual(
    ['priority', 'scale'].map((setting) => `sensors[0].${setting} has no effect without event`),
  );
});

describe('two sources on one port', () => {
  const source = (kind: 'serial' | 'modbus-rtu', more = ''): string =>
    kind === 'serial'
      ? 'source = { kind = "serial", port = "/dev/x" }'
      : `source = { kind = "modbus-rtu", port = "/dev/x", address = 1${more} }\nevery = "1s"`;
  const both = (one: string, other: string): string =>
    `[[sensors]]\nevent = "e"\n${one}\n[[properties]]\nid = "p"\n${other}`;

  // Regression: an invalid sensor hid the conflicts of all ports, until the next check.
  test.each(['[[sensors]]\nevent = 5\n', '[[sensors]]\nevent = "e"\nevery = "5x"\n'])(
    'are found although one of them is invalid elsewhere: %j',
    (invalid) => {
      const text = `${invalid}${source('serial')}\n[[properties]]\nid = "p"\n${source('serial')}`;
      const { problems } = examineConfig('config.toml', `${leastConfig}\n${text}`);
      expect(problems.map(({ message }) => message).at(-1)).toContain(
        'properties[0].source.port is the port of sensors[0], too',
      );
    },
  );

  test('may be registers on one line', () => {
    expect(parseConfig(both(source('modbus-rtu'), source('modbus-rtu', ', unit = 2'))).measurements).toHaveLength(2);
  });

  test.each([
    ['serial', 'serial', '', 'properties[0].source.port is the port of sensors[0], too'],
    ['serial', 'modbus-rtu', '', 'properties[0].source.port is the port of sensors[0], too'],
    [
      'modbus-rtu',
      'modbus-rtu',
      ', baud = 19200',
      'properties[0].source.port is the port of sensors[0], too: all units',
    ],
  ] as const)('of kinds %s and %s%s are refused', (one, other, more, why) => {
    const text = both(source(one), source(other, more));
    expect(problemsOf(`${leastConfig}\n${text}`)).toEqual([expect.stringContaining(why)]);
  });
});

/** MQTT 3.1.1, section 4.7.1, has these filters as its examples. */
test.each(['#', '+', '/+', '+/+', 'a/#', 'sport/+', 'sport/+/player1', '+/tennis/#', '$share/g/a/#', '$SYS/x'])(
  'accepts the topic filter %s',
  (topic) => {
    const source = `source = { kind = "mqtt", url = "mqtt://b", topic = "${topic}" }`;
    expect(parseConfig(`[[properties]]\nid = "p"\nevery = "1s"\n${source}`).measurements).toHaveLength(1);
  },
);

// Regression: "sensors/+temp" passed the check and failed at run time.
test.each(['sport/tennis#', 'sport/tennis/#/ranking', 'sport+', 'sensors/+temp', '#/a', 'a/+b', 'a\\u0000', ''])(
  'refuses the topic filter %j',
  (topic) => {
    const source = `source = { kind = "mqtt", url = "mqtt://b", topic = "${topic}" }`;
    expect(problemsOf(`${leastConfig}\n[[properties]]\nid = "p"\nevery = "1s"\n${source}`)).toEqual([
      expect.stringContaining('source.topic: expected a topic whose levels are names or +'),
    ]);
  },
);

const brokers = [
  ['source', (settings: string) => `[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "mqtt", ${settings} }`],
  ['output', (settings: string) => `[[watch]]\nid = "p"\nevery = "1s"\noutput = { kind = "mqtt", ${settings} }`],
] as const;

describe.each(brokers)('the broker of %s', (key, table) => {
  test.each([
    ['topic = "t", url = "mqtts://u:pw@b"', 'url has a user name: set username and password_file instead'],
    ['topic = "t", url = "mqtts://b", password_file = "/p"', 'password_file needs username as well'],
    ['topic = "t", url = "mqtts://b", client_key_file = "/k"', 'client_key_file needs client_certificate_file as well'],
  ])('refuses %s', (settings, why) => {
    expect(problemsOf(`${leastConfig}\n${table(settings)}`)).toEqual([expect.stringContaining(`.${key}.${why}`)]);
  });
});

test('refuses a topic with wildcards for publishing', () => {
  const text = '[[watch]]\nid = "p"\nevery = "1s"\noutput = { kind = "mqtt", url = "mqtt://b", topic = "a/+" }';
  expect(problemsOf(`${leastConfig}\n${text}`)).toEqual([expect.stringContaining('a topic without wildcards')]);
});

test('a watched property goes to a program, a file or a topic', () => {
  const into = [
    '{ kind = "command", command = ["/usr/bin/set"] }',
    '{ kind = "file", path = "/run/set" }',
    '{ kind = "mqtt", url = "mqtt://localhost", topic = "set" }',
  ];
  const { watches } = parseConfig(into.map((one) => `[[watch]]\nid = "p"\nevery = "1m"\noutput = ${one}`).join('\n'));
  expect(watches.map(({ output: into }) => into.kind)).toEqual(['command', 'file', 'mqtt']);
});
