import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

import { expect, test, vi } from 'vitest';

import { operations } from '../../../../../src/service/operations.ts';
import { connectReceiving } from '../../../../../src/service/rest/receiving/receiving-socket.ts';
import { releaseMemory } from '../../../../../src/system/files/release-memory.ts';
import { restRig } from '../rest-rig.ts';

const text = Buffer.alloc(
  3_000_000,
  Uint8Array.from({ length: 65_521 }, (_, index) => index * 31),
);
const untilMs = { timeout: 20_000 };

async function serverThat(serves: (socket: Socket) => void): Promise<Server & AsyncDisposable> {
  const server = createServer((socket) => {
    socket.on('error', () => {}); // the peer may have disconnected
    socket.resume(); // otherwise it would not see the peer's end
    serves(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** Destroyed before the server is closed, which waits for it. */
function connectTo(server: Server): Socket & Disposable {
  const socket = connectReceiving({ port: portOf(server), host: '127.0.0.1' });
  return Object.assign(socket, { [Symbol.dispose]: () => void socket.destroy() });
}

function taken(socket: Socket): Uint8Array | null {
  return socket.read() as Uint8Array | null;
}

test('data is read completely and in order, also by a reader that stops', async () => {
  await using server = await serverThat((socket) => socket.end(text));
  using socket = connectTo(server);
  const parts: Buffer[] = [];
  let isStopped = false;
  const take = (): void => {
    for (let chunk = taken(socket); chunk !== null; chunk = isStopped ? null : taken(socket)) {
      parts.push(Buffer.from(chunk));
      isStopped = parts.length % 3 === 0;
      if (!isStopped) continue;
      setImmediate(() => {
        isStopped = false;
        take();
      });
    }
  };
  socket.on('readable', () => {
    if (!isStopped) take();
  });
  await once(socket, 'end');
  expect(Buffer.concat(parts).equals(text)).toBe(true);
  expect(parts.length).toBeGreaterThan(3);
});

test('returned data is read again, before later data', async () => {
  await using server = await serverThat((socket) => socket.end('abcdef'));
  using socket = connectTo(server);
  const parts: string[] = [];
  socket.on('readable', () => {
    for (let chunk = taken(socket); chunk !== null; chunk = taken(socket)) {
      parts.push(Buffer.from(chunk.subarray(0, 2)).toString());
      socket.unshift(chunk.subarray(2));
    }
  });
  await once(socket, 'end');
  expect(parts.join('')).toBe('abcdef');
});

test('the beginning of a head stays as it is when the rest arrives', async () => {
  const other = Promise.withResolvers<Socket>();
  await using server = await serverThat((socket) => other.resolve(socket));
  using socket = connectTo(server);
  const sender = await other.promise;
  const sent = ['HTTP/1.1 200 OK\r\nContent-', 'Length: 0\r\n', '\r\n'];
  const parts: Uint8Array[] = [];
  const whole = Promise.withResolvers<void>();
  const sendNext = (): void => {
    const next = sent[parts.length];
    if (next === undefined) whole.resolve();
    else sender.write(next);
  };
  socket.on('readable', () => {
    for (let chunk = taken(socket); chunk !== null; chunk = taken(socket)) {
      parts.push(chunk);
      sendNext();
    }
  });
  sendNext();
  await whole.promise;
  expect(parts.map(String)).toEqual(sent);
});

test('receiving pauses while data is unread, and a late listener gets it', async () => {
  await using server = await serverThat((socket) => socket.end(text));
  using socket = connectTo(server);
  await vi.waitUntil(() => socket.bytesRead > 0, untilMs);
  const before = socket.bytesRead;
  await new Promise((resolve) => setImmediate(resolve));
  expect(socket.bytesRead).toBe(before);
  await once(socket, 'readable');
  expect(Buffer.from(taken(socket) ?? []).equals(text.subarray(0, before))).toBe(true);
});

test('its buffer cannot be released through a piece of it', async () => {
  await using server = await serverThat((socket) => socket.end(text));
  using socket = connectTo(server);
  let [receivedBytes, takenAway] = [0, 0];
  socket.on('readable', () => {
    for (let chunk = taken(socket); chunk !== null; chunk = taken(socket)) {
      const { buffer, byteLength } = chunk;
      receivedBytes += byteLength;
      releaseMemory(chunk);
      if (byteLength >= 128 * 1024 && buffer.byteLength === 0) takenAway += 1;
    }
  });
  await once(socket, 'end');
  expect({ receivedBytes, takenAway }).toEqual({ receivedBytes: text.byteLength, takenAway: 0 });
});

test('a reply that arrived before the request is not awaited', async () => {
  const head = 'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';
  await using server = await serverThat((socket) => socket.write(head));
  const deadlines = { connectMs: 20_000, firstByteMs: 600_000, idleMs: 600_000, totalMs: 600_000, transferMs: 600_000 };
  await using rig = restRig(`http://127.0.0.1:${portOf(server)}`, { deadlines });
  const call = rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, new AbortController().signal);
  await expect(call).rejects.toMatchObject({ name: 'ServiceError', remedy: 'retry' });
});
