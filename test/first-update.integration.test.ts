import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { beforeEach, expect, test } from 'vitest';

import { agentProgram } from './fakes/machine/built-agent.ts';
import { freePort } from './fakes/machine/free-port.ts';
import { testInFull } from './full-run.ts';
import { blockOf, readPage } from './page-examples.ts';
import { Mosquitto } from './unit-and-integration/service/messaging/mosquitto.ts';
import { folderUntilTestEnds } from './until-test-ends.ts';

const root = resolve(import.meta.dirname, '..');
const page = await readPage('first-update.md');
const env = { ...process.env, AGENT: agentProgram(), NO_COLOR: '1', no_proxy: '*', NO_PROXY: '*' };

let folder: string;

beforeEach(() => {
  folder = folderUntilTestEnds();
});

/** Returns the page's text, with another directory and port; for a broker, the text about that. */
function script(name: string, port: number, brokerUrl?: string): string {
  const text = blockOf(page, `sh first-update ${name}`);
  const placed = text.replaceAll('/tmp/thing-gateway', join(folder, 'gateway')).replaceAll('8080', String(port));
  if (brokerUrl === undefined) return placed;
  const [, option = '', transport = '', messaging = ''] =
    /`(--broker mqtt:\S+)` to the simulator[^`]*`(transport = [^`]+)` and `(messaging = [^`]+)`/.exec(page) ?? [];
  return placed
    .replace('npm run service --', `$& ${option}`)
    .replace(/^service = \{.*(?= \})/m, `$&, ${transport}, ${messaging}`)
    .replaceAll('mqtt://127.0.0.1', brokerUrl);
}

/** One after the other; what they print, on one line. */
async function type(...scripts: readonly string[]): Promise<string> {
  const text = ['agent() { "$AGENT" "$@"; }', ...scripts].join('\n');
  const { stdout } = await promisify(execFile)('sh', ['-ec', text], { cwd: root, env });
  return stdout.replaceAll(/\s+/g, ' ');
}

test('a first update goes as the page tells it: from a file, then from the service', async () => {
  const port = await freePort();
  const said = await type(...['release', 'gateway', 'file'].map((name) => script(name, port)));
  expect(said).toMatch(
    /config\.toml is valid\. File 1\.4\.0, .* Result It would be installed: agent install \S+\/1\.4\.0\.mender /,
  );
  expect(said).toMatch(
    / 1\.4\.0 is staged in slot B; .* State 1\.4\.0 is running on trial\. .* 1\.4\.0: installed after /,
  );
  expect(said).toMatch(/ slot B contains the release $/);
  expect(await updateFromService(port)).toHaveLength(1);
});

testInFull('a first update through a broker goes as the page tells it', async () => {
  await using broker = await Mosquitto.start();
  const port = await freePort();
  await type(...['release', 'gateway'].map((name) => script(name, port, broker.url)));
  expect(await updateFromService(port, broker.url)).toHaveLength(1);
});

/** Updates from the service; asserts the reports of the running version. */
async function updateFromService(port: number, brokerUrl?: string): Promise<readonly string[]> {
  await using stack = new AsyncDisposableStack();
  const service = spawn('sh', ['-ec', script('service', port, brokerUrl)], { cwd: root, env, detached: true });
  const ended = once(service, 'exit');
  stack.defer(async () => {
    if (service.exitCode === null && service.pid !== undefined) process.kill(-service.pid, 'SIGINT');
    await ended;
  });
  const called: string[] = [];
  await lineOf(service.stdout, 'the simulator listens', ended, (line) => called.push(line));
  const said = await type(script('update', port, brokerUrl));
  expect(said).toMatch(
    /^1\.5\.0 is staged in slot [AB]; .* Done: 1\.5\.0 is installed\. State 1\.5\.0 is running\. The daemon is not running, so/,
  );
  expect(said).toMatch(/signed by [\w.-]+\.pem,/);
  const isSwitch =
    brokerUrl === undefined ? /^204 PUT .*\/switch\.json/ : /^RPC things\.versions\.switch on v1\.a1b2\.json/;
  const switches = (): readonly string[] => called.filter((line) => isSwitch.test(line));
  await expect.poll(switches).not.toHaveLength(0);
  return switches();
}

/** Rejects if the process ends before. */
async function lineOf(
  stream: NodeJS.ReadableStream,
  text: string,
  ended: Promise<unknown>,
  onLine: (line: string) => void,
): Promise<void> {
  const found = Promise.withResolvers<void>();
  createInterface({ input: stream }).on('line', (line) => {
    onLine(line);
    if (line.includes(text)) found.resolve();
  });
  await Promise.race([found.promise, ended.then(() => Promise.reject(new Error('it ended before')))]);
}
