import { once } from 'node:events';
import { createServer } from 'node:http';

import { afterEach, describe, expect, test, vi } from 'vitest';

import type { OperationEvent } from '../../../src/control/events.ts';
import type { AgentOperations } from '../../../src/control/operations.ts';
import { endResponse, EventStream } from '../../../src/control/server/event-stream.ts';
import { ConductedOperation, fakeAgent, fakeFile } from '../cli/fake-operations.ts';
import { controlRig, forever, rawConnection, requestText, runDirectory, type ControlRig } from './control-rig.ts';

afterEach(() => {
  vi.useRealTimers();
});

const asUsual = { reboot: true, force: false };
const installed = { kind: 'installed', version: 'v1' } as const;

function conducted(): { readonly operation: ConductedOperation; readonly agent: AgentOperations } {
  const operation = new ConductedOperation();
  return { operation, agent: fakeAgent({ update: (_options, onEvent, signal) => operation.run(onEvent, signal) }) };
}

/** Status, code of the error, and whether the reply is JSON without a stack. */
function verdict(reply: string): { readonly status: string; readonly code: unknown; readonly clean: boolean } {
  const [head = '', body = ''] = reply.split('\r\n\r\n');
  const text = body.startsWith('{') ? body : (body.split('\r\n')[1] ?? '');
  const parsed = JSON.parse(text) as { readonly error?: { readonly code?: unknown } };
  return { status: head.split(' ')[1] ?? '', code: parsed.error?.code, clean: !reply.includes('    at ') };
}

async function expectAlive(rig: ControlRig): Promise<void> {
  expect((await rig.client.status({}, forever)).serialNumber).toBe('GW-0001');
}

describe('an operation', () => {
  test('continues when its client disconnects; the next one follows it', async () => {
    const { operation, agent } = conducted();
    await using rig = await controlRig(agent);
    const leaving = new AbortController();
    const first = rig.client.update(asUsual, () => {}, leaving.signal);
    const tell = await operation.begun;
    tell({ kind: 'phase', phase: 'staging', detail: 'v1' });
    leaving.abort(new Error('the terminal was closed'));
    await expect(first).rejects.toThrow('the terminal was closed');

    const events: OperationEvent[] = [];
    const followed = Promise.withResolvers<void>();
    const second = rig.client.update(
      asUsual,
      (event) => {
        events.push(event);
        if (event.kind === 'phase') followed.resolve();
      },
      forever,
    );
    await followed.promise;
    operation.end(installed);
    expect(await second).toEqual(installed);
    expect(events).toEqual([
      { kind: 'following', operation: 'update' },
      { kind: 'phase', phase: 'staging', detail: 'v1' },
    ]);
    expect(operation.begunTimes).toBe(1);
    expect(operation.aborted).toBeUndefined();
  });

  test('blocks others until then', async () => {
    const { operation, agent } = conducted();
    await using rig = await controlRig(agent);
    const updating = rig.client.update(asUsual, () => {}, forever);
    await operation.begun;
    const busy = { code: 'agent-busy', exit: 'tryAgain' };
    await expect(
      rig.client.install({ path: '/release.mender', file: fakeFile(), ...asUsual }, () => {}, forever),
    ).rejects.toMatchObject(busy);
    await expect(rig.client.update({ ...asUsual, force: true }, () => {}, forever)).rejects.toMatchObject(busy);
    await expect(rig.client.restore({ board: 'meter' }, () => {}, forever)).rejects.toMatchObject(busy);
    await expectAlive(rig);
    operation.end(installed);
    expect(await updating).toEqual(installed);
  });

  test('sends a sign of life when there is no progress', async () => {
    const { operation, agent } = conducted();
    await using rig = await controlRig(agent, { aliveMs: 10 });
    const { socket, ended } = rawConnection(rig.socket, requestText('POST', '/v1/update'));
    await new Promise<void>((resolve) => {
      socket.on('data', (text) => String(text).includes('"alive"') && resolve());
    });
    operation.end(installed);
    expect(await ended).toContain('{"kind":"result","outcome":{"kind":"installed","version":"v1"}}');
  });

  test('is reported as interrupted when the daemon stops', async () => {
    const { operation, agent } = conducted();
    await using rig = await controlRig(agent);
    const updating = rig.client.update(asUsual, () => {}, forever);
    await operation.begun;
    const [told] = await Promise.allSettled([updating, rig.stop()]);
    expect(told).toMatchObject({ reason: { code: 'agent-stopping', exit: 'tryAgain' } });
  });

  test('that fails by a defect hides internals, which are in the log', async () => {
    const defect = (): Promise<never> => Promise.reject(new TypeError('x of undefined'));
    await using rig = await controlRig(fakeAgent({ update: defect, check: defect }));
    const internal = { code: 'internal-error', exit: 'failed', message: 'the daemon failed unexpectedly' };
    await expect(rig.client.update(asUsual, () => {}, forever)).rejects.toMatchObject(internal);
    await expect(rig.client.check({}, forever)).rejects.toMatchObject(internal);
    expect(rig.log.lines.filter((line) => line.includes('x of undefined'))).toHaveLength(2);
  });
});

describe('an answer', () => {
  /** A check that ends only with its signal; `reason` is why. */
  function endless(): {
    readonly agent: AgentOperations;
    readonly begun: Promise<void>;
    readonly reason: Promise<unknown>;
  } {
    const begun = Promise.withResolvers<void>();
    const reason = Promise.withResolvers<unknown>();
    const check = (_input: object, signal: AbortSignal): Promise<never> =>
      new Promise((_resolve, reject) => {
        begun.resolve();
        signal.addEventListener('abort', () => {
          reason.resolve(signal.reason);
          reject(signal.reason);
        });
      });
    return { agent: fakeAgent({ check }), begun: begun.promise, reason: reason.promise };
  }

  test('that does not arrive in time is rejected', async () => {
    const { agent } = endless();
    await using rig = await controlRig(agent, { answerMs: 20 });
    await expect(rig.client.check({}, forever)).rejects.toMatchObject({ code: 'answer-timeout', exit: 'tryAgain' });
  });

  test('is dropped when no client waits for it', async () => {
    const { agent, begun, reason } = endless();
    await using rig = await controlRig(agent);
    const { socket } = rawConnection(rig.socket, requestText('GET', '/v1/check'));
    await begun;
    socket.destroy();
    expect(await reason).toMatchObject({ message: 'the client disconnected' });
    await expectAlive(rig);
  });

  test('is interrupted when the daemon stops', async () => {
    const { agent, begun } = endless();
    await using rig = await controlRig(agent);
    const checking = rig.client.check({}, forever);
    await begun;
    const [told] = await Promise.allSettled([checking, rig.stop()]);
    expect(told).toMatchObject({ reason: { code: 'agent-stopping' } });
  });
});

describe('a hostile client', () => {
  const deep = '['.repeat(30_000) + ']'.repeat(30_000);

  test.each([
    ['noise', '\u0000\u0001\u0002\r\n\r\n', { status: '400', code: 'control-request-invalid' }],
    ['another protocol', 'SSH-2.0-client\r\n\r\n', { status: '400', code: 'control-request-invalid' }],
    [
      'huge headers',
      `GET /v1/status HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`,
      { status: '431', code: 'control-request-too-large' },
    ],
    [
      'a huge address',
      `GET /${'x'.repeat(100_000)} HTTP/1.1\r\nhost: a\r\n\r\n`,
      { status: '431', code: 'control-request-too-large' },
    ],
    [
      'a body that is announced to be huge',
      'POST /v1/update HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\n{',
      { status: '413', code: 'control-request-too-large' },
    ],
    [
      'a body that becomes huge',
      `POST /v1/update HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n${`10000\r\n${'x'.repeat(65_536)}\r\n`.repeat(2)}`,
      { status: '413', code: 'control-request-too-large' },
    ],
    ['the wrong method', requestText('DELETE', '/v1/status'), { status: '405', code: 'control-method-wrong' }],
    ['an unknown path', requestText('GET', '/etc/passwd'), { status: '404', code: 'control-route-unknown' }],
    [
      'what is not JSON',
      requestText('POST', '/v1/update', '{"reboot":'),
      { status: '400', code: 'control-request-invalid' },
    ],
    [
      'what does not fit',
      requestText('POST', '/v1/update', '{"reboot":7}'),
      { status: '400', code: 'control-request-invalid' },
    ],
    ['deep JSON', requestText('PUT', '/v1/properties/a', deep), { status: '400', code: 'control-request-invalid' }],
    [
      'a deep value',
      requestText('PUT', '/v1/properties/a', `{"value":${deep}}`),
      { status: '400', code: 'control-request-invalid' },
    ],
    [
      'two lengths',
      'POST /v1/update HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}',
      { status: '400', code: 'control-request-invalid' },
    ],
  ])('that sends %s gets one clear refusal, and the agent is asked for nothing', async (_name, sent, refusal) => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent);
    const reply = await rawConnection(rig.socket, sent).ended;
    expect(verdict(reply)).toEqual({ ...refusal, clean: true });
    expect(agent.calls).toEqual([]);
    await expectAlive(rig);
  });

  test.each([
    ['says nothing', ''],
    ['sends half a line', 'GET /v1/sta'],
    ['sends headers without end', 'GET /v1/status HTTP/1.1\r\nhost: a\r\nx: '],
    ['sends half a body', 'POST /v1/update HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n{'],
  ])('that %s is cut off in time', async (_name, sent) => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent, { headersMs: 100, requestMs: 150 });
    const reply = await rawConnection(rig.socket, sent).ended;
    expect(verdict(reply)).toEqual({ status: '408', code: 'control-request-slow', clean: true });
    expect(agent.calls).toEqual([]);
    await expectAlive(rig);
  });

  test('that sends its headers byte by byte is disconnected in time', async () => {
    await using rig = await controlRig(fakeAgent(), { headersMs: 200, requestMs: 3_600_000 });
    const { socket, ended } = rawConnection(rig.socket, 'GET /v1/status HTTP/1.1\r\nx: ');
    const dripping = setInterval(() => socket.write('x'), 10);
    const reply = await ended;
    clearInterval(dripping);
    expect(verdict(reply).code).toBe('control-request-slow');
  });

  test('that sends many requests together has one of them done', async () => {
    const agent = fakeAgent();
    await using rig = await controlRig(agent);
    const reply = await rawConnection(rig.socket, requestText('POST', '/v1/activate').repeat(50)).ended;
    expect(reply.match(/HTTP\/1.1 200/g)).toHaveLength(1);
    expect(agent.calls).toEqual([['activate', {}]]);
  });

  test('that opens idle connections blocks no other client: the oldest one is closed', async () => {
    await using rig = await controlRig(fakeAgent(), { maxWaiting: 4 });
    const held = Array.from({ length: 4 }, () => rawConnection(rig.socket));
    await Promise.all(held.map(({ socket }) => once(socket, 'connect')));
    await expectAlive(rig);
    expect(await held[0]?.ended).toBe('');
    for (const { socket } of held) socket.destroy();
  });

  test('with too many connections gets an error, and others are served when it leaves', async () => {
    const { operation, agent } = conducted();
    await using rig = await controlRig(agent, { maxAtOnce: 2 });
    const followers = [1, 2].map(() => rawConnection(rig.socket, requestText('POST', '/v1/update')));
    await operation.begun;
    await expect
      .poll(async () => rig.client.update(asUsual, () => {}, forever).catch((error: unknown) => error))
      .toMatchObject({ code: 'control-overloaded', exit: 'tryAgain' });
    await expectAlive(rig);
    operation.end(installed);
    await Promise.all(followers.map(({ ended }) => ended));
    expect(await rig.client.update(asUsual, () => {}, forever)).toEqual(installed);
  });

  test('that dawdles does not hold up the daemon’s end', async () => {
    await using rig = await controlRig(fakeAgent(), { headersMs: 3_600_000, requestMs: 3_600_000 });
    const dawdling = ['GET /v1/st', 'POST /v1/update HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n{'].map((sent) =>
      rawConnection(rig.socket, sent),
    );
    await Promise.all(dawdling.map(({ socket }) => once(socket, 'connect')));
    await expectAlive(rig);
    await rig.stop();
    expect(await Promise.all(dawdling.map(({ ended }) => ended))).toEqual(['', '']);
  });

  test('that connects and disconnects leaves no resources, although the operation continues', async () => {
    const { operation, agent } = conducted();
    await using rig = await controlRig(agent);
    const waiting: Promise<unknown>[] = [];
    const run = rig.runner.run.bind(rig.runner);
    rig.runner.run = (...args) => {
      const end = run(...args);
      waiting.push(end);
      return end;
    };
    const { socket } = rawConnection(rig.socket, requestText('POST', '/v1/update'));
    await operation.begun;
    socket.destroy();
    await expect(waiting[0]).rejects.toThrow('the client disconnected');
    expect(operation.aborted).toBeUndefined();
    operation.end(installed);
  });

  test('that reads too slowly is dropped, and the operation continues', async () => {
    const { operation, agent } = conducted();
    await using rig = await controlRig(agent);
    const { socket, ended } = rawConnection(rig.socket, requestText('POST', '/v1/update'));
    socket.pause();
    const tell = await operation.begun;
    for (let n = 0; n < 100; n += 1) tell({ kind: 'phase', phase: 'staging', detail: 'x'.repeat(50_000) });
    operation.end(installed);
    expect(await rig.client.update(asUsual, () => {}, forever)).toEqual(installed);
    socket.resume();
    const received = await ended;
    expect(received).not.toContain('"result"');
    expect(received.length).toBeLessThan(1_000_000);
  });
});

describe('a stream of events', () => {
  /** The server's side of one connection whose other side does not read. */
  async function unread(limits: { readonly stalledMs: number; readonly maxBacklogBytes: number }) {
    const directory = await runDirectory();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen({ path: directory.socket }, resolve));
    const client = rawConnection(directory.socket, 'GET / HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n');
    client.socket.pause();
    const [, response] = (await once(server, 'request')) as [unknown, ConstructorParameters<typeof EventStream>[0]];
    const stream = new EventStream(response, { aliveMs: 1_000_000, ...limits });
    return {
      stream,
      response,
      client,
      [Symbol.asyncDispose]: async () => {
        stream[Symbol.dispose]();
        client.socket.destroy();
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
        await directory[Symbol.asyncDispose]();
      },
    };
  }

  function phase(size: number) {
    return { kind: 'event', event: { kind: 'phase', phase: 'staging', detail: 'x'.repeat(size) } } as const;
  }

  test('drops a client that reads nothing for too long', async () => {
    await using open = await unread({ stalledMs: 30, maxBacklogBytes: 100_000_000 });
    const closed = once(open.response, 'close');
    open.stream.send(phase(2_000_000));
    await closed;
    expect(open.response.writableFinished).toBe(false);
  });

  test('drops a client that does not take the end', async () => {
    await using open = await unread({ stalledMs: 3_600_000, maxBacklogBytes: 100_000_000 });
    open.stream.send(phase(2_000_000));
    await endResponse(open.response, 30);
    expect(open.response.writableFinished).toBe(false);
  });

  test('leaves out received bytes for a client that is behind, and nothing else', async () => {
    await using open = await unread({ stalledMs: 10_000, maxBacklogBytes: 100_000_000 });
    open.stream.send(phase(2_000_000));
    open.stream.send({ kind: 'event', event: { kind: 'transfer', receivedBytes: 1, totalBytes: undefined } });
    open.stream.send({ kind: 'event', event: { kind: 'phase', phase: 'verifying' } });
    const ended = open.stream.end({ kind: 'result', outcome: installed });
    open.client.socket.resume();
    await ended;
    const received = await open.client.ended;
    expect(received).toContain('"verifying"');
    expect(received).toContain('"result"');
    expect(received).not.toContain('"transfer"');
  });

  test('continues for a client that catches up', async () => {
    await using open = await unread({ stalledMs: 3_600_000, maxBacklogBytes: 100_000_000 });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    open.stream.send(phase(2_000_000));
    expect(vi.getTimerCount()).toBe(1);
    const drained = once(open.response, 'drain');
    open.client.socket.resume();
    await drained;
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
    open.stream.send({ kind: 'event', event: { kind: 'transfer', receivedBytes: 1, totalBytes: undefined } });
    await open.stream.end({ kind: 'result', outcome: installed });
    expect(await open.client.ended).toContain('"transfer"');
  });
});
