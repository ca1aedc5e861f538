import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { join } from 'node:path';

import { systemClock } from '../../../src/system/time/clock.ts';
import { packet, publishPacket } from '../../unit-and-integration/mqtt/packets.ts';
import { connack, first, PretendBroker, suback } from '../../unit-and-integration/mqtt/pretend-broker.ts';
import { everySource, sensor, shell } from './attack.ts';
import type { Attack } from './attack.ts';

const isRefused = everySource(({ failures, dropped }) => failures + dropped > 0);
const isDropping = everySource(({ dropped }) => dropped > 100);

/** A program that prints this for ever, or once. */
function printing(name: string, script: string, isSeen = isRefused): Attack {
  const toml = sensor('x', `kind = "exec", stream = true, command = ${shell(script)}`);
  return { name, prepare: async () => ({ toml }), isSeen };
}

/** A sensor broker that sends this to each subscriber. */
function broker(name: string, say: (socket: Socket) => void, isSeen = isRefused): Attack {
  return {
    name,
    isSeen,
    prepare: async () => {
      const world = await PretendBroker.start((socket) => {
        socket.write(connack[4]);
        socket.on('data', ([type, , ...id]: Buffer) => {
          if (type !== first.subscribe) return;
          socket.write(suback(4, id));
          say(socket);
        });
      });
      return { toml: sensor('x', `kind = "mqtt", url = "${world.url}", topic = "#"`), world };
    },
  };
}

function message(content: string | Buffer): Buffer {
  return publishPacket({ protocolVersion: 4, topic: 'x', qos: 0, content: Buffer.from(content) });
}

/** As fast as it is taken. */
function pour(socket: Socket, bytes: Buffer, times: number): void {
  let left = times;
  const more = (): void => {
    while (left > 0 && !socket.destroyed && socket.write(bytes)) left -= 1;
  };
  socket.on('drain', more);
  more();
}

const MEBIBYTE = 1024 * 1024;
const deep = `${'['.repeat(16_000)}${']'.repeat(16_000)}`;
/** PUBLISH of QoS 1 with the topic "a", without a packet identifier. */
const withoutIdentifier = Buffer.from([0x32, 0x03, 0x00, 0x01, 0x61]);

function pipes(count: number): Attack {
  return {
    name: `with ${count} sensors that are named pipes`,
    isSeen: everySource(({ failures }) => failures > 1),
    prepare: async (place) => {
      const paths = Array.from({ length: count }, (_, index) => join(place, `fifo-${index}`));
      execFileSync('mkfifo', paths);
      return { toml: paths.map((path, index) => sensor(`x${index}`, `kind = "file", path = "${path}"`)).join('') };
    },
  };
}

/** A serial device that prints what the script prints. */
function serial(name: string, script: string, pattern: string): Attack {
  return {
    name,
    isSeen: isRefused,
    prepare: async (place) => {
      const port = join(place, 'port');
      const child = spawn('socat', [`pty,raw,echo=0,link=${port}`, `SYSTEM:"${script}"`], { stdio: 'ignore' });
      const deadline = AbortSignal.timeout(10_000);
      while (!existsSync(port)) await systemClock.sleep(20, deadline);
      const end = async (): Promise<void> => {
        const exited = once(child, 'exit');
        if (child.kill('SIGKILL')) await exited;
      };
      const toml = sensor('x', `kind = "serial", port = "${port}"${pattern}`);
      return { toml, world: { [Symbol.asyncDispose]: end } };
    },
  };
}

const meter = `
[targets.meter]
kind = "mcu"
port = "/dev/no-port"
protocol = "stk500v1"
`;

/** An operator asks four times what flashing this file would change, sends it like this, and goes away. */
function plan(name: string, send: (socket: Socket) => void): Attack {
  return {
    name,
    isSeen: () => true,
    prepare: async () => ({ toml: meter }),
    act: async (socketPath) => {
      await Promise.all(Array.from({ length: 4 }, async () => ask(socketPath, send)));
    },
  };
}

const CLIENT_PATIENCE_MS = 3_000;

async function ask(path: string, send: (socket: Socket) => void): Promise<void> {
  const socket = connect({ path });
  const patience = setTimeout(() => socket.destroy(), CLIENT_PATIENCE_MS);
  socket.on('data', () => {});
  socket.on('error', () => {});
  socket.write('POST /v1/boards/meter/plan?path=/x.hex HTTP/1.1\r\nhost: agent\r\n');
  socket.write('transfer-encoding: chunked\r\n\r\n');
  send(socket);
  await once(socket, 'close');
  clearTimeout(patience);
}

/** Each was seen to stop the daemon, or to fill it, before there was a bound. */
export const attacks: readonly Attack[] = [
  printing(
    'with a line of deep JSON',
    "printf '%7900s' | tr ' ' '['; printf '%7900s\\n' | tr ' ' ']'; exec sleep 1000",
  ),
  printing('with a program that prints without an end', 'exec yes 1', isDropping),
  printing('with a program that prints one line without an end', "exec tr '\\0' a < /dev/zero"),
  broker('with a deep message', (socket) => void socket.write(message(deep))),
  broker('with a message without its identifier', (socket) => void socket.write(withoutIdentifier)),
  broker('with a message of 250 MiB', (socket) => {
    socket.write(packet(0x30, Buffer.alloc(0)).subarray(0, 1));
    socket.write(Buffer.from([0x80, 0x80, 0x80, 0x7d, 0, 1, 0x78]));
    pour(socket, Buffer.alloc(MEBIBYTE, 'a'), 250);
  }),
  broker(
    'with messages without an end',
    (socket) =>
      pour(socket, Buffer.concat(Array.from({ length: 1_000 }, () => message('1'))), Number.POSITIVE_INFINITY),
    isDropping,
  ),
  pipes(5),
  {
    name: 'with sensors that are devices',
    isSeen: everySource(({ failures }) => failures > 1),
    prepare: async () => ({
      toml: ['/dev/zero', '/dev/tty', '/dev/ptmx']
        .map((path, at) => sensor(`x${at}`, `kind = "file", path = "${path}"`))
        .join(''),
    }),
  },
  {
    name: 'with a program that fails with a long complaint',
    isSeen: everySource(({ failures }) => failures > 5),
    prepare: async () => ({
      toml: sensor('x', `kind = "exec", command = ${shell("printf '%50000s' | tr ' ' a >&2; exit 1")}`),
    }),
  },
  serial(
    'with a careless pattern',
    'yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_?',
    String.raw`, pattern = '^(\w+\s?)*=(\d+)$'`,
  ),
  serial('with a device that prints without an end', 'yes 1', ''),
  plan('whose operator sends nothing of an image', () => {}),
  plan('whose operator sends an image without an end', (socket) =>
    pour(socket, Buffer.from(`10000\r\n${'\0'.repeat(65_536)}\r\n`), Number.POSITIVE_INFINITY),
  ),
  plan('whose operator sends an image in pieces of a byte', (socket) =>
    pour(socket, Buffer.from('1\r\n:\r\n'.repeat(10_000)), Number.POSITIVE_INFINITY),
  ),
];
