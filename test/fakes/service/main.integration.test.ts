import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { describe, expect, test } from 'vitest';

const run = promisify(execFile);
const main = 'test/fakes/service/main.ts';

describe('the stand-in, run alone', () => {
  test('explains itself', async () => {
    const { stdout } = await run(process.execPath, [main, '--help']);
    expect(stdout).toContain('--version ID=FILE');
    expect(stdout).toContain('POST   /stand-in/faults');
    expect(stdout).toContain('truncate afterBytes?');
  });

  test.each([['--nonsense'], ['--etag=x'], ['--version=x'], ['--version=x=/nowhere']])(
    'refuses %s with one line and the exit code for usage',
    async (argument) => {
      const call = run(process.execPath, [main, argument]);
      await expect(call).rejects.toMatchObject({ code: 64 });
      await expect(call).rejects.not.toThrow('    at ');
    },
  );

  test('serves, obeys its control path, and ends when asked to', async () => {
    const child = spawn(process.execPath, [main, '--port=0', '--version=1=random:1k', '--version=2=random:1k'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const first: unknown = (await lines.next()).value;
    const url = /http:\S+/.exec(String(first))?.[0] ?? '';
    const ask = async (method: string, path: string, body?: unknown) => {
      const reply = await fetch(`${url}${path}`, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: reply.status, text: await reply.text() };
    };
    expect(await ask('PUT', '/v1/things/activate/GW-1.json')).toMatchObject({ status: 200 });
    await ask('PUT', '/stand-in/target', { version: '2' });
    expect((await ask('GET', '/v1/things/thing-1/versions/target.json')).text).toContain('"2"');
    await ask('POST', '/stand-in/faults', { operation: 'targetVersion', fault: { kind: 'status', status: 503 } });
    expect(await ask('GET', '/v1/things/thing-1/versions/target.json')).toMatchObject({ status: 503 });
    expect(await ask('GET', '/v1/things/thing-1/versions/target.json')).toMatchObject({ status: 200 });
    expect(await ask('POST', '/stand-in/faults', { fault: { kind: 'nonsense' } })).toMatchObject({ status: 400 });
    expect(await ask('GET', '/stand-in/nonsense')).toMatchObject({ status: 404 });
    expect(JSON.parse((await ask('GET', '/stand-in/state')).text)).toMatchObject({
      things: [{ serialNumber: 'GW-1' }],
    });
    expect(JSON.parse((await ask('GET', '/stand-in/calls')).text)).toHaveLength(4);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});
