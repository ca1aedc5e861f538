import { chmod, chown, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { checkConfig } from '../../../src/config/check/check-config.ts';
import { refuseRights } from '../../../src/system/processes/program-rights.ts';
import { SystemError } from '../../../src/system/system-errors.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { Authority } from '../service/rest/certificates.ts';
import { leastConfig } from './config-texts.ts';

let directory: string;
let path: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
  path = join(directory, 'config.toml');
});

describe('the check of a configuration', () => {
  // Regression: a public key as ca_file was called valid, and the service's authority unknown.
  test('rejects a file without certificates, or an unreadable one', async () => {
    await using authority = await Authority.create();
    const ca = await readFile(authority.caFile, 'utf8');
    const told = async (text: string): Promise<readonly string[]> => {
      await writeFile(join(directory, 'ca.pem'), text);
      const tls = `ca_file = "${directory}/ca.pem"\n`;
      await writeFile(path, leastConfig.replace('[service]\n', `[service]\n${tls}`));
      return (await checkConfig(path, {})).problems.map(({ message }) => message);
    };
    const none = `service.ca_file: ${directory}/ca.pem holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)`;
    expect(await told(`An authority\n${ca}${ca}`)).toEqual([]);
    for (const wrong of ['', 'ca', ca.replaceAll('CERTIFICATE', 'PUBLIC KEY')])
      expect(await told(wrong)).toEqual([none]);
    for (const cut of [ca.slice(0, 200), ca.replace('MII', 'MXX')])
      expect(await told(`${ca}${cut}`)).toEqual([
        expect.stringMatching(/a certificate that cannot be read, number 2: /),
      ]);
  });

  test('warns of paths that are invisible to the daemon’s unit', async () => {
    await writeFile(
      path,
      `${leastConfig}[update.health]\nuser = "root"\ncommands = [["/home/pi/healthy"], ["/usr/bin/true"]]\n`,
    );
    const { warnings } = await checkConfig(path, {}, { kind: 'none' });
    const hidden = warnings.filter(({ message }) => message.includes('does not see'));
    expect(hidden.map(({ message }) => message)).toEqual([
      expect.stringMatching(
        /^update\.health\.commands\[0\]: the unit thing-agent does not see \/home\/pi\/healthy: move it, or /,
      ),
    ]);
  });

  test('names a wrong schedule and missing files in addition to wrong keys of their own table, each at its line', async () => {
    const text = `${leastConfig}[update]
max_atempts = 3
schedule = "99 * * * *"
[trust]
keys = ["x", "/nowhere/a.pem", 7, "/nowhere/b.pem"]
[system]
reboot_command = ["true"]
bootid = "/x"
[targets.gateway]
kind = "slots"
slots = { A = "/nowhere/a", B = "/nowhere/b" }
bootloader = { kind = "uboot", fw_env_config = "x" }
[targets.meter]
kind = "usb"
[[watch]]
id = "a"
every = "never"
output = { kind = "command", user = "no user!", command = ["/nowhere/handler"] }
[[watch]]
id = "b"
every = "1m"
output = { kind = "mqtt", url = "mqtt://b", topic = "t", password_file = "/nowhere/password" }
`;
    await writeFile(path, text);
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ line, message }) => `${line}: ${message.replace(/ (expected|found) .*/, '')}`)).toEqual([
      '7: unknown key update.max_atempts (did you mean max_attempts?)',
      '8: update.schedule:',
      '10: trust.keys[0]:',
      '10: trust.keys[2]:',
      '10: trust.keys[1]: /nowhere/a.pem does not exist',
      '10: trust.keys[3]: /nowhere/b.pem does not exist',
      '13: unknown key system.bootid (did you mean boot_id_file?)',
      '16: targets.gateway.slots.A: /nowhere/a does not exist',
      '16: targets.gateway.slots.B: /nowhere/b does not exist',
      '17: targets.gateway.bootloader.fw_env_config:',
      '19: targets.meter.kind:',
      '22: watch[0].every:',
      '23: watch[0].output.user:',
      '27: watch[1].output.password_file: /nowhere/password does not exist',
    ]);
  });

  test('looks for the certificates of the brokers of sensors and watches', async () => {
    const broker = 'url = "mqtts://b", topic = "t", ca_file = "/nowhere/ca.pem"';
    const certificate = 'client_certificate_file = "/nowhere/client.pem", client_key_file = "/nowhere/client.key"';
    const text = `${leastConfig}[[sensors]]
event = "e"
every = "1m"
source = { kind = "mqtt", ${broker}, ${certificate} }
[[watch]]
id = "b"
every = "1m"
output = { kind = "mqtt", ${broker} }
`;
    await writeFile(path, text);
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ message }) => message)).toEqual([
      'sensors[0].source.ca_file: /nowhere/ca.pem does not exist',
      'sensors[0].source.client_certificate_file: /nowhere/client.pem does not exist',
      'sensors[0].source.client_key_file: /nowhere/client.key does not exist',
      'watch[0].output.ca_file: /nowhere/ca.pem does not exist',
    ]);
  });

  test('rejects a watch that writes into a directory of another user, and accepts a file that is missing', async () => {
    const told = async (file: string): Promise<readonly string[]> => {
      const output = `{ kind = "file", path = "${file}" }`;
      await writeFile(path, `${leastConfig}[[watch]]\nid = "b"\nevery = "1m"\noutput = ${output}\n`);
      return (await checkConfig(path, {})).problems.map(({ message }) => message);
    };
    const theirs = join(directory, 'theirs');
    await mkdir(theirs);
    expect(await told(`${theirs}/limits.json`)).toEqual([]);
    await chown(theirs, 65_534, 65_534);
    expect(await told(`${theirs}/limits.json`)).toEqual([
      `watch[0].output.path: ${theirs}/limits.json is not trusted: ${theirs} belongs to user 65534; fix it with: chown root: ${theirs}`,
    ]);
  });

  // Regression: a hook whose program was missing was called for ever, and the check had called the configuration valid.
  test('warns of a missing program for any user, and of an unplugged board: both may come later', async () => {
    const text = `${leastConfig}[update.health]
commands = [["true"], ["nowhere-to-be-found"]]
[hooks]
before_install = { command = ["/nowhere/may-install"], user = "root" }
[targets.meter]
kind = "mcu"
port = "/dev/serial/by-id/unplugged"
protocol = "stk500v1"
`;
    await writeFile(path, text);
    const { problems, warnings } = await checkConfig(path, {});
    expect(problems).toEqual([]);
    expect(warnings.map(({ message }) => message)).toEqual(
      expect.arrayContaining([
        'update.health.commands[1]: nowhere-to-be-found does not exist',
        'hooks.before_install.command: /nowhere/may-install does not exist',
        'targets.meter.port: /dev/serial/by-id/unplugged does not exist',
      ]),
    );
  });

  // Regression: a password of five characters was called valid, and the daemon then served no page.
  test.each([
    ['short', ['9: web.password_file: PASSWORD has fewer than 12 characters']],
    ['äöüäöü', ['9: web.password_file: PASSWORD has fewer than 12 characters']],
    ['long enough to be one', []],
  ])('judges the password of the page as the daemon does: %s', async (password, expected) => {
    const file = join(directory, 'password');
    await writeFile(file, `${password}\n`, { mode: 0o600 });
    await writeFile(path, `${leastConfig}[web]\nlisten = "127.0.0.1:8077"\n\npassword_file = "${file}"\n`);
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ line, message }) => `${line}: ${message.replace(file, 'PASSWORD')}`)).toEqual(expected);
  });

  // Regression: a script that others could change ran with the rights of root, behind the name of its interpreter.
  test.each([
    ['["SCRIPT"]', 1],
    ['["sh", "SCRIPT"]', 1],
    ['["/usr/bin/env", "python3", "-u", "SCRIPT"]', 1],
    ['["sh", "-e", "SCRIPT"]', 1],
    ['["/usr/bin/env", "/usr/bin/python3", "SCRIPT", "-c"]', 1],
    ['["timeout", "5", "SCRIPT"]', 1],
    ['["sh", "-ec", "cat $0", "SCRIPT"]', 0],
    ['["python3", "-m", "json.tool", "SCRIPT"]', 0],
    ['["cat", "SCRIPT"]', 0],
    ['["sh", "SCRIPT"], user = "nobody"', 0],
  ])('refuses a script that others may write in command = %s, at the start, too', async (command, count) => {
    const script = join(directory, 'level');
    await writeFile(script, '#!/bin/sh\necho 1\n', { mode: 0o755 });
    await chmod(script, 0o777);
    const settings = command.replace('SCRIPT', script);
    await writeFile(
      path,
      `${leastConfig}[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "exec", command = ${settings} }\n`,
    );
    const { problems } = await checkConfig(path, {});
    expect(problems.filter(({ message }) => message.includes('is not trusted'))).toHaveLength(count);
    const [, words = ''] = /^(\[.*\])/.exec(settings) ?? [];
    const user = settings.includes('user') ? 'nobody' : undefined;
    const started = refuseRights(JSON.parse(words) as [string, ...string[]], user).then(
      () => 0,
      (error: unknown) => (error instanceof SystemError && error.code === 'writable-by-others' ? 1 : error),
    );
    expect(await started).toBe(count);
  });

  test('finds two names of one slot', async () => {
    const link = join(directory, 'link');
    await symlink(path, link);
    for (const other of [link, `${directory}/./${basename(path)}`]) {
      const slots = `kind = "slots"\nslots = { A = "${path}", B = "${other}" }\n`;
      await writeFile(
        path,
        `${leastConfig}[targets.g]\n${slots}bootloader = { kind = "custom", handler = "/bin/true" }\n`,
      );
      expect((await checkConfig(path, {})).problems).toEqual([
        { line: 8, message: `targets.g.slots: A and B are the same: ${path} and ${other} lead to one place` },
      ]);
    }
  });

  test('refuses boards on one port, unless they are images of one SMP server or a program selects each', async () => {
    const link = join(directory, 'meter');
    await symlink('/dev/null', link);
    const board = (name: string, port: string, more = 'protocol = "stk500v1"'): string =>
      `[targets.${name}]\nkind = "mcu"\nport = "${port}"\n${more}\n`;
    const selected = (program: string): string => `protocol = "stk500v1"\nreset = { command = ["${program}"] }`;
    const image = (number: number): string => `protocol = "smp"\nsmp = { image = ${number} }`;
    const found = async (...boards: readonly string[]): Promise<readonly string[]> => {
      await writeFile(path, leastConfig + boards.join(''));
      return (await checkConfig(path, {})).problems.map(({ line, message }) => `${line}: ${message.split(':')[0]}`);
    };
    const same = ['12: targets.b.port is the port of targets.a, too'];
    const alias = [`${same[0]}, under the name /dev/null`];
    expect(await found(board('a', '/dev/null'), board('b', link))).toEqual(alias);
    expect(await found(board('a', '/dev/null'), board('b', '/dev/null'))).toEqual(same);
    expect(await found(board('a', '/dev/null'), board('b', '/dev/null', selected('/bin/true')))).toEqual(same);
    const alike = [board('a', link, selected('/bin/true')), board('b', link, selected('/bin/true'))];
    expect(await found(...alike)).toEqual(['13: targets.b.port is the port of targets.a, too']);
    expect(await found(board('a', link, selected('/bin/true')), board('b', link, selected('/bin/false')))).toEqual([]);
    expect(await found(board('a', link, image(0)), board('b', '/dev/null', image(1)))).toEqual([]);
    expect(await found(board('a', link, image(0)), board('b', '/dev/null', 'protocol = "smp"\n'))).toEqual([
      `13: targets.b.port is the port of targets.a, too, under the name ${link}`,
    ]);
    const servers = ['one', 'two'].map((name) => {
      const selected = `protocol = "smp"\nreset = { command = ["/bin/true", "${name}"] }`;
      return board(name, link, selected);
    });
    expect(await found(...servers)).toEqual([]);
  });

  test('refuses sources whose ports are one device under different names, as under one', async () => {
    const link = join(directory, 'line');
    await symlink('/dev/null', link);
    const serial = 'kind = "serial"';
    const found = async (first: string, second: string): Promise<readonly string[]> => {
      const source = (text: string, port: string): string =>
        `source = { ${text}, port = "${port}" }${text === serial ? '' : '\nevery = "1s"'}\n`;
      const one = `[[sensors]]\nevent = "e"\n${source(first, '/dev/null')}`;
      await writeFile(path, `${leastConfig}${one}[[properties]]\nid = "p"\n${source(second, link)}`);
      return (await checkConfig(path, {})).problems.map(({ message }) => message);
    };
    const rtu = 'kind = "modbus-rtu", address = 1';
    const alias = 'properties[0].source.port is the port of sensors[0], too, under the name /dev/null: ';
    expect(await found(serial, serial)).toEqual([
      `${alias}one source reads a port, and its outputs name several values`,
    ]);
    expect(await found(serial, rtu)).toHaveLength(1);
    expect(await found(rtu, rtu)).toEqual([]);
    expect(await found(rtu, `${rtu}, baud = 19200`)).toEqual([
      `${alias}all units on a line have the same baud and parity`,
    ]);
  });

  test('warns of a schedule that means something else than it seems to', async () => {
    await writeFile(path, `${leastConfig}[update]\nschedule = "*/90 * * * *"\n`);
    const { problems, warnings } = await checkConfig(path, {});
    expect(problems).toEqual([]);
    expect(warnings).toContainEqual({
      line: 7,
      message:
        'update.schedule: */90 is a step beyond the 60 minutes that there are, so that only the first of them counts',
    });
  });

  // Regression: the file was valid, and then everything ended with serial-number-unknown.
  test.each([
    ['', ['device.serial_number']],
    ['serial_number = "GW-1"', []],
  ])('tells a serial number that is missing, where the hardware tells none either (%j)', async (line, wrong) => {
    await writeFile(path, `[service]\nurl = "https://service.example"\n[device]\ndevice_type = "gw"\n${line}\n`);
    const none = async (): Promise<never> => {
      throw new SystemError('serial-number-unknown', 'the hardware tells none');
    };
    const { problems } = await checkConfig(path, {}, { kind: 'gateway', findSerialNumber: none });
    expect(problems.map(({ message }) => message.split(':')[0])).toEqual(wrong);
    expect(problems.map(({ line: at }) => at)).toEqual(wrong.map(() => 3));
    const some = await checkConfig(path, {}, { kind: 'gateway', findSerialNumber: async () => 'GW-2' });
    expect(some.problems).toEqual([]);
  });

  // Regression: "GW 1/ü" was used in addresses and topics without a warning.
  test('warns of a serial number with a blank, a slash or a letter beyond ASCII, of the file and of the hardware', async () => {
    const warned = async (line: string): Promise<readonly string[]> => {
      await writeFile(path, `[service]\nurl = "https://service.example"\n[device]\ndevice_type = "gw"\n${line}\n`);
      const around = { kind: 'gateway', findSerialNumber: async () => 'PC 1' } as const;
      const { problems, warnings } = await checkConfig(path, {}, around);
      expect(problems).toEqual([]);
      return warnings.flatMap(({ line: at, message }) => (message.includes('serial') ? [`${at}: ${message}`] : []));
    };
    expect(await warned('serial_number = "GW-1"')).toEqual([]);
    expect(await warned('serial_number = "GW 1/ü"')).toEqual([
      expect.stringMatching(/^5: .*"GW 1\/ü" has a blank and/),
    ]);
    expect(await warned('')).toEqual([expect.stringMatching(/^3: .*what the hardware tells, "PC 1" has a blank in/)]);
  });

  // Regression: after a typo next to a serial number, the check also reported a missing serial number.
  test.each([
    ['devicetype = "gw"\nserial_number = "GW-1"', ['device.device_type is missing', 'unknown key device.devicetype']],
    ['device_type = "gw"\nserial_number = 5', ['device.serial_number: expected a text']],
  ])('blames no hardware for the serial number where the table itself is wrong (%j)', async (lines, wrong) => {
    await writeFile(path, `[service]\nurl = "https://service.example"\n[device]\n${lines}\n`);
    const none = async (): Promise<never> => {
      throw new SystemError('serial-number-unknown', 'the hardware tells none');
    };
    const { problems } = await checkConfig(path, {}, { kind: 'gateway', findSerialNumber: none });
    expect(problems).toHaveLength(wrong.length);
    for (const [at, start] of wrong.entries()) expect(problems[at]?.message).toContain(start);
  });
});
