import { createSocket } from 'node:dgram';
import type { Socket } from 'node:dgram';
import { once } from 'node:events';

/** The name that `serveNamesAndTime` knows, and its address in the emulated network. */
export const SERVICE_NAME = 'things.test';
const SERVICE_ADDRESS = [10, 0, 2, 100];
export const DNS_PORT = 5300;
const NTP_PORT = 123;
/** Seconds between the epochs of NTP (1900) and Unix. */
const NTP_EPOCH_S = 2_208_988_800;

/** Answers DNS (RFC 1035: A records of one name) and SNTP (RFC 4330) on the loopback address, until it is disposed. */
export async function serveNamesAndTime(): Promise<AsyncDisposable> {
  const sockets = [await answer(DNS_PORT, addressOf), await answer(NTP_PORT, timeFor)];
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all(sockets.map(async (socket) => new Promise<void>((resolve) => socket.close(() => resolve()))));
    },
  };
}

async function answer(port: number, reply: (request: Buffer) => Buffer | undefined): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.on('message', (request, { port: to, address }) => {
    const message = reply(request);
    if (message !== undefined) socket.send(message, to, address);
  });
  socket.bind(port, '127.0.0.1');
  await once(socket, 'listening');
  return socket;
}

/** A question has a header of 12 bytes, labels that end with 0, type and class. Additional records are not repeated. */
function addressOf(request: Buffer): Buffer | undefined {
  const labels: string[] = [];
  let at = 12;
  for (let bytes = request[at] ?? 0; bytes > 0 && at < request.length; bytes = request[at] ?? 0) {
    labels.push(request.toString('latin1', at + 1, at + 1 + bytes));
    at += 1 + bytes;
  }
  if (at + 5 > request.length) return undefined;
  const question = request.subarray(12, at + 5);
  const isKnown = labels.join('.').toLowerCase() === SERVICE_NAME;
  const isAddress = request.readUInt16BE(at + 1) === 1;
  const answers = isKnown && isAddress ? 1 : 0;
  const header = Buffer.from([0, 0, 0x85, isKnown ? 0x80 : 0x83, 0, 1, 0, answers, 0, 0, 0, 0]);
  request.copy(header, 0, 0, 2);
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...SERVICE_ADDRESS]);
  return Buffer.concat(answers === 1 ? [header, question, record] : [header, question]);
}

/** Mode 4 (server), stratum 1, with the client's transmit time as the originate time. */
function timeFor(request: Buffer): Buffer | undefined {
  if (request.length < 48) return undefined;
  const reply = Buffer.alloc(48);
  reply.set([0x24, 1, 6, 0xec]);
  reply.write('TEST', 12, 'latin1');
  request.copy(reply, 24, 40, 48);
  const nowMs = Date.now();
  for (const at of [16, 32, 40]) {
    reply.writeUInt32BE(Math.floor(nowMs / 1000) + NTP_EPOCH_S, at);
    reply.writeUInt32BE(Math.floor(((nowMs % 1000) / 1000) * 2 ** 32), at + 4);
  }
  return reply;
}
