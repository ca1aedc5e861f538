import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Mosquitto } from './rooms/service/messaging/mosquitto.ts';

const root = resolve(import.meta.dirname, '..');
const page = readFileSync(join(root, 'README.md'), 'utf8');
const env = { ...process.env, NO_COLOR: '1', no_proxy: '*', NO_PROXY: '*' };

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'readme-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** What stands there is what is run, but for the folder and the port; through a broker, with what stands there for that. */
function script(name: string, port: number, brokerUrl?: string): string {
  const text = new RegExp(`^\`\`\`sh by-hand ${name}\\n(.*?)^\`\`\``, 'ms').exec(page)?.[1];
  if (text === undefined) throw new Error(`README.md has no script ${name}`);
  const placed = text.replaceAll('/tmp/thing-gateway', join(folder, 'gateway')).replaceAll('8080', String(port));
  if (brokerUrl === undefined) return placed;
  const [, option = '', transport = '', messaging = ''] =
    /`(--broker mqtt:\S+)` at the stand-in[^`]*`(transport = [^`]+)` with `(messaging = [^`]+)`/.exec(page) ?? [];
  return placed
    .replace('npm run service --', `$& ${option}`)
    .replace(/^service = \{.*(?= \})/m, `$&, ${transport}, ${messaging}`)
    .replaceAll('mqtt://127.0.0.1', brokerUrl);
}

test.each(['by HTTP', 'through a broker'])('an update by hand goes as README.md tells it, %s', async (way) => {
  await using broker = await Mosquitto.start();
  const brokerUrl = way === 'by HTTP' ? undefined : broker.url;
  const port = await freePort();
  await using stack = new AsyncDisposableStack();
  const service = spawn('sh', ['-ec', script('service', port, brokerUrl)], { cwd: root, env, detached: true });
  const ended = once(service, 'exit');
  stack.defer(async () => {
    if (service.exitCode === null && service.pid !== undefined) process.kill(-service.pid, 'SIGINT');
    await ended;
  });
  const called: string[] = [];
  await lineOf(service.stdout, 'the stand-in listens', ended, (line) => called.push(line));
  const { stdout } = await promisify(execFile)('sh', ['-ec', script('gateway', port, brokerUrl)], { cwd: root, env });
  const said = stdout.replaceAll(/\s+/g, ' ');
  expect(said).toMatch(
    /^A .*config\.toml is valid\. 1\.4\.0 is staged in slot B; .* B Done: 1\.4\.0 is installed\. State Attention: no daemon runs, so nobody follows the service/,
  );
  expect(said).toMatch(/signed by [0-9a-f]{10},.* slot B holds what was released $/);
  const isSwitch =
    brokerUrl === undefined ? /^204 PUT .*\/switch\.json/ : /^RPC things\.versions\.switch on v1\.a1b2\.json/;
  await expect.poll(() => called.filter((line) => isSwitch.test(line)), { timeout: 20_000 }).toHaveLength(1);
});

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

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
