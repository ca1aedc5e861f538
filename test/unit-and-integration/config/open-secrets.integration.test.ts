import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { checkConfig } from '../../../src/config/check/check-config.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';
import { leastConfig } from './config-texts.ts';

let directory: string;
let path: string;

beforeEach(() => {
  directory = folderUntilTestEnds();
  path = join(directory, 'config.toml');
});

// Regression: mqtt:// to another machine was taken with a warning, though the API key is in each request.
test.each([
  ['', 'the API key travels unprotected'],
  ['username = "u"\npassword_file = "/p"\n', 'the API key and the password travel unprotected'],
])('refuses plain mqtt to another machine in the same way: %j', async (more, message) => {
  const messaging = `[service.messaging]\nurl = "mqtt://broker.example.com"\n${more}topic_id = "t"\n`;
  await writeFile(path, leastConfig + messaging);
  const line = leastConfig.split('\n').length + 1;
  await expect(loadConfig(path, {})).rejects.toMatchObject({
    code: 'config-invalid',
    problems: [{ line, message: expect.stringContaining('service.insecure = true') as string }],
  });
  await writeFile(path, leastConfig.replace('[service]', '[service]\ninsecure = true') + messaging);
  const { warnings } = await loadConfig(path, {});
  expect(warnings).toContainEqual({ line: line + 1, message: `service.messaging.url is plain mqtt: ${message}` });
  await writeFile(path, leastConfig + messaging.replace('broker.example.com', '127.0.0.1'));
  expect(JSON.stringify((await loadConfig(path, {})).warnings)).not.toContain('plain mqtt');
});

test('warns of a password in an address, where everybody may read the configuration', async () => {
  const told = async (): Promise<readonly string[]> => {
    const lists = [(await loadConfig(path, {})).warnings, (await checkConfig(path, {})).warnings];
    const [loaded, checked] = lists.map((list) =>
      list.filter(({ message }) => message.includes('readable by all users')),
    );
    expect(checked).toEqual(loaded);
    return (loaded ?? []).map(({ message }) => message);
  };
  await chmod(directory, 0o755);
  await writeFile(path, leastConfig.replace('https://', 'https://joe:secret@'), { mode: 0o644 });
  expect(await told()).toEqual([
    `service.url: has a password, and ${path} is readable by all users of this machine; to fix it: chmod 600 ${path}`,
  ]);
  await chmod(path, 0o640);
  expect(await told()).toEqual([]);
  await chmod(path, 0o644);
  await writeFile(path, leastConfig.replace('https://', 'https://joe@'));
  expect(await told()).toEqual([]);
});

test('warns of a secret that everybody may read, and only then', async () => {
  const [password, key, authority] = ['password', 'it’s.key', 'ca.pem'].map((name) => join(directory, name));
  if (password === undefined || key === undefined || authority === undefined) throw new Error('three were named');
  for (const file of [password, key, authority]) await writeFile(file, 'x', { mode: 0o644 });
  const tls = `ca_file = "${authority}"\nclient_certificate_file = "${authority}"\nclient_key_file = "${key}"\n`;
  const sensor = `[[sensors]]\nevent = "e"\nevery = "1m"\nsource = { kind = "mqtt", url = "mqtt://b", topic = "t", username = "u", password_file = "${password}" }\n`;
  await writeFile(path, leastConfig.replace('[service]\n', `[service]\n${tls}`) + sensor);
  const told = async (): Promise<readonly string[]> => {
    const lists = [(await loadConfig(path, {})).warnings, (await checkConfig(path, {})).warnings];
    const [loaded, checked] = lists.map((list) =>
      list.filter(({ message }) => message.includes('readable by all users')),
    );
    expect(checked).toEqual(loaded);
    return (loaded ?? []).map(({ message }) => message);
  };
  expect(await told()).toEqual([]); // the directory is closed to all users
  await chmod(directory, 0o755);
  expect(await told()).toEqual([
    `service.client_key_file: ${key} is readable by all users of this machine; to fix it: chmod 600 '${key}'`,
    `sensors[0].source.password_file: ${password} is readable by all users of this machine; to fix it: chmod 600 ${password}`,
  ]);
  await chmod(password, 0o600);
  await chmod(key, 0o640);
  expect(await told()).toEqual([]);
});
