import type { LookupAddress } from 'node:dns';
import { Socket } from 'node:net';
import type { TcpNetConnectOpts } from 'node:net';

import { expect, test } from 'vitest';

import { ConnectFailure, Dialing } from '../../../src/system/dialing.ts';

const never = new AbortController().signal;
const v6 = { address: '2001:db8::1', family: 6 };
const v4 = { address: '192.0.2.1', family: 4 };

/** Behavior of the network when a socket to this address opens. Default: no response. */
type Network = Readonly<Record<string, (socket: Socket) => void>>;

class Line {
  readonly tried: string[] = [];
  readonly sockets: Socket[] = [];
  readonly dialing: Dialing;

  constructor(addresses: readonly LookupAddress[], network: Network) {
    const open = ({ host = '' }: TcpNetConnectOpts): Socket => {
      const socket = new Socket();
      this.tried.push(host);
      this.sockets.push(socket);
      process.nextTick(() => network[host]?.(socket));
      return socket;
    };
    this.dialing = new Dialing({ host: 'dual.test', port: 80 }, { open, resolve: async () => addresses });
  }
}

function fails(code: string): (socket: Socket) => void {
  return (socket) => socket.destroy(Object.assign(new Error(`connect ${code}`), { code }));
}

const connects = (socket: Socket): void => void socket.emit('connect');

// Node: nodejs/node#54359, #47822. Its own attempts end after 250 ms each, except the last one.
test('keeps a slow address in the race while the next one is tried', async () => {
  const line: Line = new Line([v4, v6], {
    [v6.address]: (socket) => {
      fails('ENETUNREACH')(socket);
      setImmediate(() => line.sockets[0]?.emit('connect'));
    },
  });
  expect(await line.dialing.open(never)).toBe(line.sockets[0]);
  expect(line.tried).toEqual([v4.address, v6.address]);
});

test('tries the next address immediately after a failure', async () => {
  const line = new Line([v6, v4], { [v6.address]: fails('ENETUNREACH'), [v4.address]: connects });
  expect(await line.dialing.open(never)).toBe(line.sockets[1]);
});

test('closes the sockets that lost the race', async () => {
  const line = new Line([v6, v4], { [v4.address]: connects });
  const socket = await line.dialing.open(never);
  expect(line.sockets.map((each) => [each === socket, each.destroyed])).toEqual([
    [false, true],
    [true, false],
  ]);
});

test('alternates between the families', async () => {
  const more = [v6, { address: '2001:db8::2', family: 6 }, v4, { address: '192.0.2.2', family: 4 }];
  const refused = Object.fromEntries(more.map(({ address }) => [address, fails('ECONNREFUSED')]));
  const line = new Line(more, refused);
  await expect(line.dialing.open(never)).rejects.toThrow(ConnectFailure);
  expect(line.tried).toEqual([v6.address, v4.address, '2001:db8::2', '192.0.2.2']);
});

test('lists the reply of each address, and reports the most informative one', async () => {
  const line = new Line([v6, v4], { [v6.address]: fails('ENETUNREACH'), [v4.address]: fails('ECONNREFUSED') });
  await expect(line.dialing.open(never)).rejects.toMatchObject({
    code: 'ECONNREFUSED',
    message: 'refused the connection (2001:db8::1: cannot be reached, 192.0.2.1: refused the connection)',
  });
});

test('knows at the deadline which addresses have not answered', async () => {
  const late = new AbortController();
  const line = new Line([v6, v4], {
    [v6.address]: fails('ENETUNREACH'),
    [v4.address]: () => late.abort(new Error('late')),
  });
  await expect(line.dialing.open(late.signal)).rejects.toThrow('late');
  expect(line.dialing.answers).toBe(' (2001:db8::1: cannot be reached, 192.0.2.1: no answer)');
  expect(line.sockets.every((socket) => socket.destroyed)).toBe(true);
});

test('knows at the deadline that the name was not resolved', async () => {
  const deps = { resolve: async () => new Promise<never>(() => {}) };
  const dialing = new Dialing({ host: 'unknown.test', port: 80 }, deps);
  await expect(dialing.open(AbortSignal.abort(new Error('late')))).rejects.toThrow('late');
  expect(dialing.answers).toBe(' (its name was not resolved)');
});

test('asks for a name once as long as the resolver has not answered', async () => {
  const { promise, resolve: answer } = Promise.withResolvers<readonly LookupAddress[]>();
  let questions = 0;
  const resolve = async (): Promise<readonly LookupAddress[]> => {
    questions += 1;
    return promise;
  };
  const dial = async (): Promise<Socket> => {
    const open = (): Socket => {
      const socket = new Socket();
      process.nextTick(connects, socket);
      return socket;
    };
    return new Dialing({ host: 'slow.test', port: 80 }, { open, resolve }).open(never);
  };
  const both = Promise.all([dial(), dial()]);
  answer([v4]);
  await both;
  expect(questions).toBe(1);
  await dial();
  expect(questions).toBe(2);
});

test('adds nothing to the message about a host that is an address', async () => {
  const dialing = new Dialing({ host: v4.address, port: 80 });
  expect(dialing.answers).toBe('');
});
