import { connect, Socket } from 'node:net';
import type { TcpNetConnectOpts } from 'node:net';

/** The most that one read of the socket brings. */
const RECEIVE_BYTES = 256 * 1024;

/**
 * Less is copied, since undici keeps views of the head of a reply until it is whole: 16 KiB of names and values at
 * most, which are 80 KiB with the text between them. Only a peer that sends more in one go before a head is whole
 * (thousands of early hints, or blanks) spoils names and values of its own head, which it could have written like that,
 * too. Views of trailers are never used.
 */
const COPIED_BYTES = 96 * 1024;

/**
 * Opens a socket that receives into one buffer, for undici alone: a large result of `read` is valid until the next event
 * of the socket. An ordinary socket allocates 64 KiB for each read; without that an installation takes 8 % less time. To
 * remove it, use `connect` of node:net instead.
 *
 * With `onread` of node:net the bytes bypass the stream, so the two methods by which undici takes them, `read` and
 * `unshift`, are replaced here.
 */
export function connectReceiving(options: TcpNetConnectOpts): Socket {
  /** Received data that was not taken yet. The socket is not read until it is. */
  let waiting: Uint8Array | undefined;
  const callback = (count: number, buffer: Uint8Array): boolean => {
    const received = buffer.subarray(0, count);
    waiting = count < COPIED_BYTES ? Buffer.from(received) : received;
    socket.emit('readable');
    return waiting === undefined;
  };
  // a byte more than is ever filled: who gives back the memory of a piece at the end of its buffer does not take this one
  const buffer = Buffer.allocUnsafeSlow(RECEIVE_BYTES + 1).subarray(0, RECEIVE_BYTES);
  const socket = connect({ ...options, onread: { buffer, callback } });
  const read = (): Uint8Array | null => {
    const taken = waiting;
    waiting = undefined;
    if (taken !== undefined) return taken;
    Socket.prototype.read.call(socket, 0); // continues receiving, or ends
    return null;
  };
  Object.assign(socket, {
    read: (size?: number): Uint8Array | null => (size === 0 && waiting !== undefined ? null : read()),
    unshift: (rest: Uint8Array): void => {
      if (rest.length > 0) waiting = rest;
    },
  });
  // data that arrived before the first listener
  socket.on('newListener', (event) => {
    if (event === 'readable' && waiting !== undefined) process.nextTick(() => socket.emit('readable'));
  });
  return socket;
}
