import type { Socket } from 'node:net';

import { systemClock } from '../../../../../src/system/time/clock.ts';
import { ModbusDevices } from '../../../../../src/telemetry/sources/modbus/modbus.ts';
import { mqttSource } from '../../../../../src/telemetry/sources/mqtt.ts';
import { ModbusTcpServer } from '../../../../fakes/modbus/tcp-server.ts';
import type { TcpConduct } from '../../../../fakes/modbus/tcp-server.ts';
import { noLogin } from '../../../mqtt/no-login.ts';
import { publishPacket } from '../../../mqtt/packets.ts';
import { connack, first, PretendBroker, suback } from '../../../mqtt/pretend-broker.ts';
import { sourceContract, timeoutMs } from './source-contract.ts';
import type { Conduct } from './source-contract.ts';

const noise = Buffer.from(Uint8Array.from({ length: 300 }, (_, index) => (index * 89 + 5) & 0xff));
const register = { unit: 1, table: 'holding', address: 0, type: 'u16', byteOrder: 'big', wordOrder: 'big' } as const;

sourceContract('modbus-tcp', async (stack) => {
  let present: Conduct = 'works';
  const conducts: Readonly<Record<Conduct, TcpConduct>> = {
    works: {},
    silent: { isLost: true },
    garbage: { spoil: () => noise },
    overflow: { spoil: (frame) => Buffer.concat([frame.subarray(0, 4), Buffer.alloc(200_000, 0xff)]) },
    gone: { end: 'reset' },
  };
  const server = stack.use(await ModbusTcpServer.start({ holding: () => 7 }, () => conducts[present]));
  const noLine = async (): Promise<never> => Promise.reject(new Error('there is no serial line here'));
  const devices = stack.use(new ModbusDevices(noLine, systemClock));
  const source = devices.tcpSource({ host: '127.0.0.1', port: server.port, timeoutMs }, register);
  return { source, conduct: (conduct) => void (present = conduct) };
});

sourceContract('mqtt', async (stack) => {
  let present: Conduct = 'works';
  const sockets = new Set<Socket>();
  const message = (content: Buffer): Buffer => publishPacket({ protocolVersion: 4, topic: 'a', content });
  const messages: Readonly<Record<Conduct, Buffer>> = {
    works: message(Buffer.from('7')),
    silent: Buffer.alloc(0),
    garbage: noise,
    overflow: message(Buffer.alloc(200_000, '9')),
    gone: Buffer.alloc(0),
  };
  const broker = stack.use(
    await PretendBroker.start((socket) => {
      sockets.add(socket);
      if (present === 'gone') return void socket.destroy();
      if (present !== 'silent') socket.write(connack[4]);
      socket.on('data', ([type, , ...identifier]: Buffer) => {
        if (type === first.subscribe) socket.write(Buffer.concat([suback(4, identifier), messages[present]]));
      });
    }),
  );
  stack.defer(() => sockets.forEach((socket) => socket.destroy()));
  const source = mqttSource({ ...noLogin, url: broker.url, topic: 'a', retained: 'once' });
  return { source, conduct: (conduct) => void (present = conduct) };
});
