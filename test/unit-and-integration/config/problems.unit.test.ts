import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';

import { MAX_PROBLEMS } from '../../../src/config/errors.ts';
import { locateKeys } from '../../../src/config/file/key-lines.ts';
import { describeIssues } from '../../../src/config/file/problems.ts';
import { errorOf, leastConfig, problemsOf } from './config-texts.ts';

describe('an unknown key', () => {
  test.each([
    ['[update]\nshedule = "* * * * *"', 'unknown key update.shedule (did you mean schedule?)'],
    ['[update]\nca_file = "/x"', 'unknown key update.ca_file'],
    ['[update]\nallow_unsigned = true', 'unknown key update.allow_unsigned (it belongs in [trust])'],
    ['[updates]\nfollow = "none"', 'unknown key updates (did you mean update?)'],
    [
      '[update.health]\nservice = { url = "https://x" }',
      'update.health.service: expected true or false, found a table',
    ],
    [
      '[update]\nservice = { url = "https://x" }',
      'unknown key update.service (to be a table of its own it stands above the first [table], or is written as [service])',
    ],
    ['[update]\nservice = true', 'unknown key update.service (it belongs in [update.health])'],
    ['[update.health]\nunit = []', 'unknown key update.health.unit (did you mean units?)'],
    [
      '[targets.m]\nkind = "mcu"\nport = "/x"\nprotocol = "stm32"\nbuad = 1',
      'unknown key targets.m.buad (did you mean baud?)',
    ],
    [
      '[[sensors]]\nevent = "t"\nevery = "1s"\nsource = { kind = "hwmon", chip = "c", input = "i", metrc = "m" }',
      'unknown key sensors[0].source.metrc',
    ],
    ['"odd key" = 1', 'unknown key "odd key"'],
  ])('is named with the nearest known one: %j', (text, message) => {
    const whole = text.startsWith('[') ? leastConfig + text : text + leastConfig;
    expect(problemsOf(whole).map((problem) => problem.replace(/^\d+: /, ''))).toEqual([message]);
  });
});

describe('a removed key', () => {
  test('is refused with its line and what to do, not as an unknown key', () => {
    expect(problemsOf(`${leastConfig}[system]\nhelper = "/run/thing-helper/helper.sock"\n`)).toEqual([
      `${leastConfig.split('\n').length + 1}: system.helper was removed, since the agent is always one process: delete this line`,
    ]);
  });
});

describe('a wrong value', () => {
  const cases: readonly (readonly [string, string])[] = [
    // regression: "expected an address that starts with mqtt://" for an address that does
    ...['h:187777', 'h:80a/x', '[::1]:65536', 'h:-1'].map((rest): readonly [string, string] => [
      `[service.messaging]\nurl = "mqtt://${rest}"`,
      `service.messaging.url: expected an address whose port is a number from 1 to 65535, found "mqtt://${rest}"`,
    ]),
    [
      '[service.messaging]\nurl = "mqtt://me:pa#ss/2@h:1?x"',
      'service.messaging.url: expected an address whose port is a number from 1 to 65535, found "mqtt://********@h:1?********"',
    ],
    [
      '[service.messaging]\nurl = "mqtt://h:1?x"',
      'service.messaging.url: expected an address that starts with mqtts:// or mqtt://, without "?" and "#", found "mqtt://h:1?********"',
    ],
    [
      '[web]\nlisten = "127.0.0.1:187777"',
      'web.listen: expected an address whose port is a number from 1024 to 65535, found "127.0.0.1:187777"',
    ],
    [
      '[update]\nfollow = "tagret"',
      'update.follow: expected "target", "updates" or "none", found "tagret" (did you mean "target"?)',
    ],
    ['[update]\nmax_attempts = 0', 'update.max_attempts: expected a whole number from 1 to 100, found 0'],
    ['[update]\nmax_attempts = 1.5', 'update.max_attempts: expected a whole number from 1 to 100, found 1.5'],
    ['[update]\nmax_attempts = "3"', 'update.max_attempts: expected a whole number from 1 to 100, found "3"'],
    [
      '[update]\nsplay = 10',
      'update.splay: expected a duration such as "90s", "10m" or "1h30m", from 0s to 7d, found 10',
    ],
    [
      '[update]\nsplay = "ten minutes"',
      'update.splay: expected a duration such as "90s", "10m" or "1h30m", from 0s to 7d, found "ten minutes"',
    ],
    [
      '[update]\nsplay = "30d"',
      'update.splay: expected a duration such as "90s", "10m" or "1h30m", from 0s to 7d, found "30d"',
    ],
    [
      '[update]\nwindow = "2:00-5:00"',
      'update.window: expected two times of day that differ, such as "02:00-05:00", found "2:00-5:00"',
    ],
    [
      '[update]\nwindow = "02:00-02:00"',
      'update.window: expected two times of day that differ, such as "02:00-05:00", found "02:00-02:00"',
    ],
    [
      '[update]\nselect = "/(/"',
      'update.select: expected "newest", "last", "first" or a regular expression such as "/^stable-/", found "/(/"',
    ],
    ['[update]\nhealth = true', 'update.health: expected a table, found true'],
    [
      '[update]\nhealth = { commands = [[]] }',
      'update.health.commands[0][0] is missing: expected a list of texts, the program first, such as ["systemctl", "reboot"]',
    ],
    ['[trust]\nkeys = "/x"', 'trust.keys: expected a list, found "/x"'],
    [
      '[trust]\nkeys = "/etc/thing-agent/trust/release.pem"',
      'trust.keys: expected a list, found "/etc/thing-agent/trust/release.pem"',
    ],
    [
      '[targets.m]\nkind = "mcu"\nport = "ttyUSB0"\nprotocol = "stm32"',
      'targets.m.port: expected an absolute path such as "/dev/serial/by-id/usb-meter", found "ttyUSB0"',
    ],
    [
      '[trust]\nkeys = ["x"]',
      'trust.keys[0]: expected an absolute path such as "/etc/thing-agent/trust/release.pem", found "x"',
    ],
    ['[trust]\nallow_unsigned = 1', 'trust.allow_unsigned: expected true or false, found 1'],
    [
      '[paths]\nstate = 2026-01-01',
      'paths.state: expected an absolute path such as "/var/lib/thing-agent", found a date',
    ],
    ['[targets.m]\nkind = "usb"', 'targets.m.kind: expected "slots", "mcu" or "package", found "usb"'],
    ['[targets.m]', 'targets.m.kind is missing: expected "slots", "mcu" or "package"'],
    [
      '[targets.m]\nkind = "mcu"\nport = "/x"\nprotocol = "updi"',
      'targets.m.protocol: expected "stk500v1", "stk500v2", "stm32", "esp", "smp" or "xmodem", found "updi"',
    ],
    [
      '[targets.m]\nkind = "mcu"\nport = "/x"\nprotocol = "stm32"\nreset = "rts"',
      'targets.m.reset: expected "dtr", "dtr-rts", "1200bps", "none" or a table, found "rts"',
    ],
    [
      '[targets."a b"]\nkind = "mcu"\nport = "/x"\nprotocol = "stm32"',
      'targets."a b": expected a name of letters, digits, "-" and "_" that starts with a letter',
    ],
    [
      '[targets.m]\nkind = "mcu"\nport = "/x"\nprotocol = "stm32"\nreset = { command = [] }',
      'targets.m.reset.command[0] is missing: expected a list of texts, the program first, such as ["systemctl", "reboot"]',
    ],
  ];

  test.each([
    ['"200KiB"', ': expected a rate such as "200KiB/s", from 1KiB/s to 1024MiB/s, found "200KiB"'],
    [
      '[{ window = "8-18", rate = "1MiB/s" }]',
      '[0].window: expected two times of day that differ, such as "02:00-05:00", found "8-18"',
    ],
  ])('says what was expected of a rate: %s', (rate, told) => {
    const text = leastConfig.replace('[device]', `max_rate = ${rate}\n[device]`);
    expect(problemsOf(text).map((problem) => problem.replace(/^.*?: /, ''))).toEqual([`service.max_rate${told}`]);
  });

  test.each(cases)('names the expected and the actual value: %j', (text, message) => {
    expect(problemsOf(leastConfig + text).map((problem) => problem.replace(/^\d+: /, ''))).toEqual([message]);
  });

  test('is shown short and on one line', () => {
    const [problem = ''] = problemsOf(`${leastConfig}[update]\nsplay = "${'x\\n'.repeat(500)}"`);
    expect(problem).not.toContain('\n');
    expect(problem.length).toBeLessThan(200);
  });

  test('has its line, also in a list over several lines', () => {
    expect(problemsOf(`${leastConfig}[trust]\nkeys = [\n  "/ok",\n  "bad",\n]\n`)).toEqual([
      expect.stringMatching(/^9: trust\.keys\[1\]: /),
    ]);
  });
});

describe('what is missing', () => {
  test('is named at the table that lacks it', () => {
    expect(problemsOf('# empty\n[device]\ndevice_type = "x"\n[service]\n')).toEqual([
      '4: service.url is missing: expected an address that starts with https:// or http://, without "?" and "#"',
    ]);
  });

  test('is named where there is no such table at all', () => {
    expect(problemsOf('')).toEqual([
      'service.url is missing: expected an address that starts with https:// or http://, without "?" and "#"',
      'device.device_type is missing: expected a text that is not empty',
    ]);
  });
});

describe('a contradiction', () => {
  const pair = (name: string, extra = '') =>
    `[targets.${name}]\nkind = "slots"\nslots = { A = "/dev/a", B = "/dev/b" }\nbootloader = { kind = "grub" }\n${extra}`;
  const messaging = '[service.messaging]\nurl = "mqtts://b"\n';
  const board = (protocol: string, name = 'meter') =>
    `[targets.${name}]\nkind = "mcu"\nport = "/dev/${name}"\nprotocol = "${protocol}"\n`;

  test.each([
    [
      `[update]\ndefault_target = "x"\n${pair('gateway')}`,
      ['7: update.default_target: there is no [targets.x] (there are: gateway)'],
    ],
    ['[update]\ndefault_target = "x"\n', ['7: update.default_target: there is no [targets.x] (there are no targets)']],
    [
      pair('one') + pair('two').replace('/dev/a', '/dev/c').replace('/dev/b', '/dev/d'),
      ['13: targets.two.bootloader: only one pair of slots may have the bootloader, and one has it'],
    ],
    [
      pair('one') +
        pair('two')
          .replace('/dev/a', '/dev/c')
          .replace(/bootloader.*/, ''),
      ['12: targets.two.slots.B is a slot of targets.one, too'],
    ],
    [pair('one').replace(/bootloader.*/, ''), ['6: targets.one: a pair of slots needs a bootloader']],
    [pair('one').replace('/dev/b', '/dev/a'), ['8: targets.one.slots: A and B are the same']],
    [
      pair('one').replace('"grub"', '"tryboot", partitions = { A = 2, B = 2 }'),
      ['9: targets.one.bootloader.partitions: A and B are the same'],
    ],
    [
      pair('one').replace('"grub"', '"custom", handler = "/h", names = { A = "x", B = "x" }'),
      ['9: targets.one.bootloader.names: A and B are the same'],
    ],
    [
      `${pair('one')}[targets.app]\nkind = "package"\npackage = "app"\n`,
      ['10: targets.app: a gateway with slots gets its packages in the images of these'],
    ],
    [
      '[targets.one]\nkind = "package"\npackage = "app"\n[targets.two]\nkind = "package"\npackage = "app"\n',
      ['11: targets.two.package is also the package of targets.one'],
    ],
    [
      `${board('stk500v1')}ram_bytes = 98_304\n${board('stm32', 'second')}smp = {}\nxmodem.variant = "ymodem"\n`,
      [
        '10: targets.meter.ram_bytes is only for protocol "stm32"; this board has "stk500v1"',
        '15: targets.second.smp is only for protocol "smp"; this board has "stm32"',
        '16: targets.second.xmodem is only for protocol "xmodem"; this board has "stm32"',
      ],
    ],
    [
      `${board('smp')}bootloader_bytes = 512\nflash_bytes = 65_536\nmcuboot_key_file = "/k"\nformat = "raw"\naddress = 0\n`,
      [
        '10: targets.meter.bootloader_bytes is only for protocol "stk500v1" or "stk500v2"; this board has "smp"',
        '11: targets.meter.flash_bytes is only for protocol "stm32" or "esp"; this board has "smp"',
        '13: targets.meter.format is only for protocol "stk500v1", "stk500v2", "stm32", "esp" or "xmodem"; this board has "smp"',
        '14: targets.meter.address is only for protocol "stk500v1", "stk500v2", "stm32" or "esp"; this board has "smp"',
      ],
    ],
    [
      messaging,
      [
        '6: service.messaging.request_topic contains {topic_id}: set service.messaging.topic_id',
        '6: service.messaging.reply_topic contains {topic_id}: set service.messaging.topic_id',
      ],
    ],
    [
      `${messaging}topic_id = "t"\nclient_key_file = "/k"\n`,
      ['9: service.messaging.client_key_file needs client_certificate_file as well'],
    ],
    [
      `${messaging}topic_id = "t"\nwake_topic = "v1.{topic_id}.reply.json"\npassword_file = "/p"\n`,
      [
        '9: service.messaging.wake_topic is the same as reply_topic',
        '10: service.messaging.password_file needs username as well',
      ],
    ],
    [
      `${messaging.replace('b"', 'u:secret@b"')}topic_id = "t"\n`,
      ['7: service.messaging.url has a user name: set username and password_file instead'],
    ],
  ])('is found: %j', (text, problems) => {
    expect(problemsOf(leastConfig + text)).toEqual(problems);
  });

  test('of the transport is found', () => {
    const text = leastConfig.replace('[device]', 'transport = "messaging"\n[device]');
    expect(problemsOf(text)).toEqual(['4: service.transport = "messaging" needs a table [service.messaging]']);
  });
});

describe('the error', () => {
  test('has all problems in the order of the file, and the first in its message', () => {
    const error = errorOf('[update]\nfollow = "x"\nsplay = 1\n[service]\nurl = "ftp://x"\n[device]\nfoo = 1\n');
    expect(error.problems.map(({ line }) => line)).toEqual([2, 3, 5, 6, 7]);
    expect(error.message).toMatch(/^config\.toml:2: update\.follow: .* \(and 4 more\)$/);
    expect(error).toMatchObject({ code: 'config-invalid', exit: 'configuration', remedy: 'give-up', omitted: 0 });
  });

  test('counts what it does not tell', () => {
    const unknown = Array.from({ length: MAX_PROBLEMS + 5 }, (_, index) => `k${index}q = 1\n`).join('');
    const error = errorOf(`${unknown}${leastConfig}`);
    expect(error.problems).toHaveLength(MAX_PROBLEMS);
    expect(error.omitted).toBe(5);
  });

  test('of a string that nothing closes asks for its quote', () => {
    const error = errorOf('[device]\nserial_number = "GW-1\n');
    expect(error.message).toContain('is the quote that ends one missing?');
  });

  test('of a text without quotes asks for them', () => {
    expect(errorOf('[device]\nlabel = hall 3\n').message).toContain('a text needs quotes');
  });

  test('explains how to write an integer beyond 2^53', () => {
    const error = errorOf('[[sensors]]\nignore = [18446744073709551615]\n');
    expect(error.message).toContain('write a number beyond 2^53 with .0 at its end');
  });

  test('of a text that is not TOML names line and column and shows nothing of the text', () => {
    const error = errorOf('[service]\npassword = "hunter2\n');
    expect(error.code).toBe('config-syntax');
    expect(error.message).toMatch(/^config\.toml:2: not TOML: .* \(column \d+\)$/);
    expect(JSON.stringify(error.problems)).not.toContain('hunter2');
  });

  test.each(['__proto__ = 1', 'constructor.x = 1', '[update]\n__proto__ = { follow = "none" }'])(
    'refuses keys that could reach into the program: %j',
    (text) => {
      expect(['config-syntax', 'config-invalid']).toContain(errorOf(text).code);
    },
  );

  test('never shows a secret, wherever it stands', () => {
    const secret = fc.stringMatching(/^[A-Za-z0-9]{8,20}$/).map((text) => `S3${text}`);
    const places: readonly ((value: string) => string)[] = [
      (value) => `[service]\npassword = "${value}"`,
      (value) => `[service]\nurl = "https://user:${value}@host?x"`,
      (value) => `[service]\nurl = "https://host/?key=${value}"`,
      (value) => `[service.messaging]\nurl = "http://u:${value}@h"\napi_key = "${value}"`,
      (value) => `[service.messaging]\npassword_file = { token = "${value}" }`,
      (value) => `token = "${value}`,
    ];
    fc.assert(
      fc.property(secret, fc.constantFrom(...places), (value, place) => {
        const error = errorOf(place(value));
        const told = [error.message, error.advice, ...error.descriptions];
        expect(told.join('\n')).not.toContain(value);
      }),
    );
  });

  test('never shows the value of a key that is named like a secret', () => {
    const schema = z.strictObject({ api_key: z.number() });
    const input = { api_key: 'hunter2' };
    const result = schema.safeParse(input, { error: () => '' });
    const problems = describeIssues(result.error?.issues ?? [], { schema, input, keyLines: locateKeys('') });
    expect(problems).toEqual([{ line: undefined, message: 'api_key: expected number, found something else' }]);
  });

  test('never ends in anything but an answer or a ConfigError, whatever the text', () => {
    const piece = fc.constantFrom(
      '[service]',
      '[[targets]]',
      'url',
      '=',
      '"x"',
      '\n',
      '{',
      '}',
      '[',
      ']',
      '1',
      '.',
      '"""',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string({ maxLength: 3 })), { maxLength: 30 }), (pieces) => {
        expect(problemsOf(pieces.join(''))).not.toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});
