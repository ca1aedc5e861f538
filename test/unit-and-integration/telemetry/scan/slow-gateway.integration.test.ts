import { expect, test } from 'vitest';

import { scanModbus } from '../../../../src/telemetry/scan/scan-modbus.ts';
import { ModbusTcpServer } from '../../../fakes/modbus/tcp-server.ts';

/** Modbus Application Protocol V1.1b3, 7: the gateway target failed to respond. */
function failedToRespond(frame: Buffer): Buffer {
  return Buffer.from([...frame.subarray(0, 5), 3, frame.readUInt8(6), frame.readUInt8(7) | 0x80, 11]);
}

// Regression: a gateway that waits for a missing unit longer than the scan did answered too late for the next one.
test('finds a unit behind a gateway that waits three seconds for the missing unit before it', async () => {
  const conduct = (request: number) => (request === 0 ? { waitMs: 3_200, spoil: failedToRespond } : {});
  await using server = await ModbusTcpServer.start({ holding: () => 1 }, conduct);
  const place = { kind: 'modbus-tcp', host: '127.0.0.1', port: server.port } as const;
  const ending = new AbortController();
  const probes: (readonly [number, number])[] = [];
  const scanning = scanModbus(
    place,
    async () => Promise.reject(new Error('the scan opens no line')),
    (unit, answering) => {
      probes.push([unit, answering]);
      if (unit === 2) ending.abort(new Error('enough'));
    },
    ending.signal,
  );
  await expect(scanning).rejects.toThrow('enough');
  expect(probes).toEqual([
    [1, 0],
    [2, 1],
  ]);
});
