import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { socketNames } from '../../../../src/control/access.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { calmStatus, fakeAgent } from '../../cli/fake-operations.ts';
import { controlRig, rawConnection, requestText } from '../control-rig.ts';

async function ask(socket: string, method = 'GET', path = '/metrics'): Promise<string> {
  return rawConnection(socket, requestText(method, path)).ended;
}

describe('a request for metrics', () => {
  test.each(Object.values(socketNames))('is answered at %s, whatever its query', async (name) => {
    await using rig = await controlRig(fakeAgent({ status: async () => ({ ...calmStatus, state: 'ok' }) }));
    const reply = await ask(join(rig.runDirectory, name), 'GET', '/metrics?format=text');
    expect(reply).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\ncontent-type: application\/openmetrics-text; version=1\.0\.0/i);
    expect(reply).toContain('\nthing_agent_state{thing_agent_state="ok"} 1\n');
    expect(reply).toContain('\n# EOF\n');
  });

  test.each([
    ['POST', '/metrics', '405 ', 'control-method-wrong'],
    ['GET', '/metrics/', '404 ', 'control-route-unknown'],
    ['GET', '/v1/metrics', '404 ', 'control-route-unknown'],
  ])('by %s %s is refused', async (method, path, status, code) => {
    await using rig = await controlRig();
    const reply = await ask(rig.socket, method, path);
    expect(reply).toContain(`HTTP/1.1 ${status}`);
    expect(reply).toContain(code);
  });

  test('that cannot be answered returns the reason as JSON', async () => {
    const full = new AgentError({ code: 'disk-full', message: 'full', remedy: 'retry', exit: 'disk' });
    await using rig = await controlRig(fakeAgent({ status: () => Promise.reject(full) }));
    const reply = await ask(rig.socket);
    expect(reply).toContain('HTTP/1.1 500 ');
    expect(reply).toContain('{"error":{"code":"disk-full","message":"full","exit":"disk"}}');
  });

  test('that does not end in time is dropped', async () => {
    const history = (_input: object, signal: AbortSignal): Promise<never> =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    await using rig = await controlRig(fakeAgent({ history }), { answerMs: 50 });
    expect(await ask(rig.socket)).toContain('"answer-timeout"');
  });

  test('uses one of the connections of other requests', async () => {
    const begun = Promise.withResolvers<void>();
    const history = (_input: object, signal: AbortSignal): Promise<never> => {
      begun.resolve();
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    await using rig = await controlRig(fakeAgent({ history }), { maxAtOnce: 1 });
    const first = rawConnection(rig.socket, requestText('GET', '/metrics'));
    await begun.promise;
    expect(await ask(rig.socket, 'GET', '/v1/status')).toContain('"control-overloaded"');
    expect(await ask(rig.socket)).toContain('"control-overloaded"');
    first.socket.destroy();
  });
});
