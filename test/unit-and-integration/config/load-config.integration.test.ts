import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { chmod, chown, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, describe, expect, test } from 'vitest';

import { checkConfig } from '../../../src/config/check/check-config.ts';
import { parseToml } from '../../../src/config/file/toml.ts';
import { effectiveConfig, loadConfig, showConfig } from '../../../src/config/load-config.ts';
import { findRunDirectory } from '../../../src/config/read-config.ts';
import { configJsonSchema } from '../../../src/config/schema/json-schema.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { leastConfig, wholeConfig } from './config-texts.ts';

let directory: string;
let path: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
  path = join(directory, 'config.toml');
});

describe('loadConfig', () => {
  test('reads the file, with a byte order mark and Windows line ends too', async () => {
    await writeFile(path, `\uFEFF${leastConfig.replaceAll('\n', '\r\n')}`);
    expect((await loadConfig(path, {})).config.device.deviceType).toBe('raspberrypi4-64');
  });

  test('names the remedy for a missing file', async () => {
    await expect(loadConfig(path, {})).rejects.toMatchObject({
      code: 'config-missing',
      exit: 'configuration',
      message: `${path}: no such configuration file`,
      advice: 'make it with agent setup, or name another with --config FILE',
    });
  });

  test('prints the command to check an unusual file again', async () => {
    await writeFile(path, '[service]');
    await expect(loadConfig(path, {})).rejects.toMatchObject({
      advice: `correct the file, then try it with: agent --config ${path} config check`,
    });
  });

  test.each([
    ['a directory', async () => mkdir(path), 'is not a file'],
    ['a pipe', async () => promisify(execFile)('mkfifo', [path]), 'is not a file'],
    ['a file of the kernel without an end', async () => symlink('/proc/kmsg', path), 'cannot be read: '],
    ['not UTF-8', async () => writeFile(path, Buffer.from([0x23, 0xff, 0x0a])), 'is not UTF-8 text'],
    ['too large', async () => writeFile(path, '#'.repeat(1024 * 1024 + 1)), 'is larger than 1048576 bytes'],
  ])('refuses what is %s', async (_, make, why) => {
    await make();
    const error: unknown = await loadConfig(path, {}).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'config-unreadable', exit: 'configuration' });
    expect(String(error)).toContain(why);
  });

  test("prefers systemd's directories, and warns about another value in the file", async () => {
    await writeFile(path, `${leastConfig}[paths]\nstate = "/data/agent"\n[trust]\nkeys = ["/k"]\n[targets]\n`);
    const { config, warnings } = await loadConfig(path, {
      STATE_DIRECTORY: '/var/lib/private/a:/var/lib/b',
      RUNTIME_DIRECTORY: '/run/elsewhere',
    });
    expect(config.paths).toEqual({ state: '/var/lib/private/a', run: '/run/elsewhere' });
    expect(warnings).toEqual([
      expect.objectContaining({ message: expect.stringContaining('there are no [targets]') as string }),
      { line: 7, message: expect.stringContaining('paths.state = "/data/agent" has no effect here') as string },
    ]);
  });

  test.each([
    ['[trust]\nallow_unsigned = true\n', 'trust.allow_unsigned = true: firmware is installed without a signature'],
    ['', 'trust.keys is empty and trust.allow_unsigned is false: updates will not be installed'],
    [
      '[update]\nhealth = { deadline = "26m" }\n',
      'update.health.deadline = "26m" is longer than 25m: thing-agent-trial.timer ends a trial 30 minutes after boot, so raise its OnBootSec= in a drop-in, too',
    ],
  ])('warns of what weakens a promise: %j', async (text, message) => {
    await writeFile(path, leastConfig + text);
    expect((await loadConfig(path, {})).warnings.map((warning) => warning.message)).toContain(message);
  });

  test('accepts a health deadline for which the trial timer waits', async () => {
    await writeFile(path, `${leastConfig}[update]\nhealth = { deadline = "25m" }\n`);
    expect(JSON.stringify((await loadConfig(path, {})).warnings)).not.toContain('deadline');
  });

  test.each(['http://things.example.com', 'http://127.0.0.1.example.com', 'http://192.168.1.9:8080'])(
    'refuses plain http to another machine, unless that was written: %s',
    async (url) => {
      await writeFile(path, leastConfig.replace('https://things.example.com', url));
      await expect(loadConfig(path, {})).rejects.toMatchObject({
        code: 'config-invalid',
        problems: [{ line: 3, message: expect.stringContaining('service.insecure = true') as string }],
      });
      await writeFile(path, leastConfig.replace('"https://things.example.com"', `"${url}"\ninsecure = true`));
      const { warnings } = await loadConfig(path, {});
      expect(warnings).toContainEqual({ line: 3, message: expect.stringContaining('plain http') as string });
    },
  );

  test.each(['http://127.0.0.1:8080', 'http://localhost', 'http://[::1]:1'])('takes %s as it is', async (url) => {
    await writeFile(path, leastConfig.replace('https://things.example.com', url));
    expect(JSON.stringify((await loadConfig(path, {})).warnings)).not.toContain('plain http');
  });

  test.each([
    ['a file that others may write', async () => chmod(path, 0o646), 'can be changed by anyone'],
    ['a file of somebody else', async () => chown(path, 4711, 0), 'belongs to user 4711'],
    ['a folder that a group may write', async () => chmod(directory, 0o775), 'can be changed by group'],
  ])('refuses %s, and names the line that mends it', async (_, expose, why) => {
    await writeFile(path, leastConfig);
    await expose();
    const error: unknown = await loadConfig(path, {}).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'writable-by-others', exit: 'configuration' });
    expect(String(error)).toContain(why);
    const [, mend = 'false'] = /fix it with: (.*)$/.exec(String(error)) ?? [];
    await promisify(execFile)('sh', ['-c', mend]);
    expect((await loadConfig(path, {})).path).toBe(path);
  });
});

describe('showConfig', () => {
  test('shows the settings in effect so that they could be the file', async () => {
    await writeFile(path, wholeConfig);
    const { config } = await loadConfig(path, {});
    await writeFile(path, await showConfig(path, {}));
    expect((await loadConfig(path, {})).config).toEqual(config);
  });

  test('includes defaults and values from the environment', async () => {
    await writeFile(path, leastConfig);
    expect(parseToml(await showConfig(path, { STATE_DIRECTORY: '/var/lib/x' }))).toMatchObject({
      paths: { state: '/var/lib/x', run: '/run/thing-agent' },
      update: { splay: '15m', health: { deadline: '5m' } },
    });
  });

  test('masks the password of an address', async () => {
    await writeFile(path, leastConfig.replace('https://', 'https://user:hunter2@'));
    expect(JSON.stringify(await effectiveConfig(path, {}))).not.toContain('hunter2');
  });
});

describe('checkConfig', () => {
  test('names every file that is missing or unfit, with its line', async () => {
    const notExecutable = join(directory, 'handler');
    await writeFile(notExecutable, '');
    await chmod(notExecutable, 0o644);
    const text = `[service]
url = "https://things.example.com"
ca_file = "${directory}/ca.pem"
[device]
device_type = "x"
serial_number_file = "${directory}"
[trust]
keys = [
  "${path}",
  "${path}/key.pem",
]
[targets.gateway]
kind = "slots"
slots = { A = "/dev/null", B = "${path}" }
bootloader = { kind = "custom", handler = "${notExecutable}" }
[targets.meter]
kind = "mcu"
port = "${path}"
protocol = "stm32"
`;
    await writeFile(path, text);
    const { problems, warnings } = await checkConfig(path, {});
    expect(problems).toEqual([
      { line: 3, message: `service.ca_file: ${directory}/ca.pem does not exist` },
      { line: 6, message: `device.serial_number_file: ${directory} is not a file` },
      {
        line: 9,
        message: `trust.keys[0]: ${path} is refused: it is not a public key in PEM form (BEGIN PUBLIC KEY)`,
      },
      { line: 10, message: `trust.keys[1]: ${path}/key.pem does not exist` },
      { line: 14, message: 'targets.gateway.slots.A: /dev/null is neither a block device nor a file' },
      { line: 15, message: `targets.gateway.bootloader.handler: ${notExecutable} may not be executed` },
      { line: 18, message: `targets.meter.port: ${path} is not a character device` },
    ]);
    expect(warnings).toEqual([]);
  });

  test('rejects a private key, or one that other users may write, as a trusted key', async () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const [good, secret, shared] = ['good.pem', 'secret.pem', 'shared.pem'].map((name) => join(directory, name));
    await writeFile(good ?? '', publicKey.export({ format: 'pem', type: 'spki' }));
    await writeFile(shared ?? '', publicKey.export({ format: 'pem', type: 'spki' }));
    await writeFile(secret ?? '', privateKey.export({ format: 'pem', type: 'pkcs8' }));
    await chmod(shared ?? '', 0o666);
    const board = 'kind = "mcu"\nport = "/dev/null"\nprotocol = "smp"\n';
    const text = `${leastConfig}[trust]\nkeys = ["${good}", "${secret}", "${shared}"]
[targets.a]\n${board}mcuboot_key_file = "${good}"
[targets.b]\n${board.replace('null', 'zero')}mcuboot_key_file = "${secret}"\n`;
    await writeFile(path, text);
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ message }) => message)).toEqual([
      `trust.keys[1]: ${secret} is refused: it is a private key, which belongs on no gateway`,
      `trust.keys[2]: ${shared} is not trusted: ${shared} can be changed by anyone; fix it with: chmod go-w ${shared}`,
      `targets.b.mcuboot_key_file: ${secret} is refused: it is a private key, which belongs on no gateway`,
    ]);
  });

  test('names each user who is not there', async () => {
    const program = 'command = ["/bin/true"]';
    await writeFile(
      path,
      `${leastConfig}
[update]
health = { commands = [["/bin/true"]], user = "nobody-here" }
[[sensors]]
event = "a"
every = "1m"
source = { kind = "exec", user = "nobody", ${program} }
[[properties]]
id = "b"
every = "1m"
source = { kind = "exec", user = "nobody-here", ${program} }
[[watch]]
id = "w"
every = "1m"
output = { kind = "command", user = "nobody-here", ${program} }
[hooks]
before_reboot = { user = "nobody-here", ${program} }
`,
    );
    const { problems } = await checkConfig(path, {});
    const said = problems.map(({ message }) => message).filter((message) => message.includes('nobody'));
    const why = 'nobody-here: no such user on this machine';
    expect(said).toEqual([
      `update.health.user: ${why}`,
      `properties[0].source.user: ${why}`,
      `watch[0].output.user: ${why}`,
      `hooks.before_reboot.user: ${why}`,
    ]);
  });

  test('names each password, certificate and program that others may write, but no program of another user', async () => {
    const exposed = join(directory, 'exposed');
    await writeFile(exposed, 'x');
    await chmod(exposed, 0o777);
    const text = `[service]
url = "https://things.example.com"
client_certificate_file = "${exposed}"
client_key_file = "${exposed}"
[service.messaging]
url = "mqtts://b"
topic_id = "t"
username = "u"
password_file = "${exposed}"
[device]
device_type = "x"
[system]
reboot_command = ["${exposed}"]
[update]
health = { commands = [["/bin/true"], ["${exposed}"]] }
[targets.g]
kind = "slots"
slots = { A = "${exposed}", B = "${path}" }
bootloader = { kind = "custom", handler = "${exposed}" }
[[sensors]]
event = "a"
every = "1m"
source = { kind = "exec", command = ["${exposed}"] }
[[sensors]]
event = "b"
every = "1m"
source = { kind = "exec", user = "nobody", command = ["${exposed}"] }
[[watch]]
id = "w"
every = "1m"
output = { kind = "command", command = ["${exposed}"] }
[[watch]]
id = "m"
every = "1m"
output = { kind = "mqtt", url = "mqtt://localhost", topic = "t", username = "u", password_file = "${exposed}" }
[hooks]
before_install = { command = ["${exposed}"] }
after_commit = { user = "nobody", command = ["${exposed}"] }
`;
    await writeFile(path, text);
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ line, message }) => `${line} ${message.split(':', 1).join('')}`)).toEqual([
      '3 service.client_certificate_file',
      '4 service.client_key_file',
      '9 service.messaging.password_file',
      '13 system.reboot_command',
      '15 update.health.commands[1]',
      '19 targets.g.bootloader.handler',
      '23 sensors[0].source.command',
      '31 watch[0].output.command',
      '35 watch[1].output.password_file',
      '37 hooks.before_install.command',
    ]);
  });

  // systemctl would take it for an option.
  test.each(['--host=elsewhere', 'a unit', ''])('takes %j for no name of a unit', async (unit) => {
    await writeFile(
      path,
      `[service]\nurl = "https://x.example.com"\n[update.health]\nunits = [${JSON.stringify(unit)}]\n`,
    );
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ message }) => message)).toContainEqual(
      expect.stringMatching(/^update\.health\.units\[0\]: expected (?:the name of a unit|a text that is not empty)/),
    );
  });

  test('names mistakes of every kind together, in the order of the file', async () => {
    const text = `[service]
url = "https://things.example.com"
transprot = "rest"
[device]
device_type = "x"
serial_number_file = "/nowhere/serial"
[update]
schedule = "99 * * * *"
[trust]
keys = "/k"
[targets.gateway]
kind = "slots"
slots = { A = "${path}", B = "${path}" }
bootloader = { kind = "custom", handler = "/bin/true" }
[[sensors]]
every = "ten"
source = { kind = "file", path = "/x" }
`;
    await writeFile(path, text);
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ line, message }) => `${line}: ${message}`)).toEqual([
      '3: unknown key service.transprot (did you mean transport?)',
      '6: device.serial_number_file: /nowhere/serial does not exist',
      '8: update.schedule: expected a cron expression such as "*/15 * * * *", found "99 * * * *"',
      '10: trust.keys: expected a list, found "/k"',
      '13: targets.gateway.slots: A and B are the same',
      expect.stringMatching(/^16: sensors\[0\]\.every: expected a duration/),
    ]);
  });

  test.each(['0 3 * * *', '*/10 * * * * *', '0 0 * JAN-MAR MON-FRI', '@daily'])(
    'takes the schedule %s',
    async (cron) => {
      await writeFile(path, `${leastConfig}[update]\nschedule = "${cron}"\n`);
      expect((await checkConfig(path, {})).problems).toEqual([]);
    },
  );

  test('looks for the file of the boot environment that the tools use', async () => {
    const target =
      '[targets.g]\nkind = "slots"\nslots = { A = "/a", B = "/b" }\nbootloader = { kind = "uboot", fw_env_config = "/nowhere" }\n';
    await writeFile(path, leastConfig + target);
    const { problems } = await checkConfig(path, {});
    expect(problems.map(({ message }) => message)).toContain(
      'targets.g.bootloader.fw_env_config: /nowhere does not exist',
    );
  });
});

describe('configJsonSchema', () => {
  test('describes the file in its TOML form', () => {
    const schema = configJsonSchema();
    expect(schema).toMatchObject({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      additionalProperties: false,
      required: ['service', 'device'],
      properties: { update: { properties: { follow: { enum: ['target', 'updates', 'none'], default: 'target' } } } },
    });
  });
});

// Regression: while the configuration was broken, status, hold and history ended with its error, although the daemon ran and would have answered.
test.each([
  ['[paths]\nrun = "/srv/run"\nstate = 7\n', '/srv/run'],
  ["paths = { state = '/srv', run = '/srv/run' }\n[oops\n", '/srv/run'],
  ['paths.run="/srv/run"\n', '/srv/run'],
  ['[paths]\n# run = "/srv/run"\nnot_run = "/srv"\n', undefined],
  ['', undefined],
])('where a daemon can be asked is found in a file that cannot be used: %j', async (text, run) => {
  await writeFile(path, text);
  expect(await findRunDirectory(path)).toBe(run);
  expect(await findRunDirectory(`${path}.missing`)).toBeUndefined();
});
