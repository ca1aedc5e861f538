import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { expect, test } from 'vitest';

import { Throttle } from '../../../../src/service/throttle.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import { restRig } from './rest-rig.ts';

const MIB = 1024 * 1024;
const OFFERED_BYTES = 256 * MIB;
/** Limit of data in flight: in the buffers of both sockets, and of the exchange. */
const ON_ITS_WAY_BYTES = 32 * MIB;

/** Sends as much as is taken. */
function offer(response: ServerResponse, piece: Buffer, sent: { bytes: number }): void {
  while (sent.bytes < OFFERED_BYTES) {
    sent.bytes += piece.byteLength;
    if (response.write(piece)) continue;
    response.once('drain', () => offer(response, piece, sent));
    return;
  }
  response.end();
}

test('a download that is slowed down is not read from its socket, so that the service waits', async () => {
  const sent = { bytes: 0 };
  const replies: ServerResponse[] = [];
  const server = createServer((_request, response) => {
    replies.push(response);
    offer(response, Buffer.alloc(MIB, 'A'), sent);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const stop = new AbortController();
    const reason = new Error('stop');
    /** Its first wait lasts until the end of the test. */
    const slept = Promise.withResolvers<void>();
    const clock = {
      ...systemClock,
      sleep: async (_ms: number, signal: AbortSignal): Promise<void> => {
        slept.resolve();
        await systemClock.sleep(2 ** 31 - 1, signal);
      },
    };
    const throttle = new Throttle([{ window: undefined, bytesPerSecond: 1024 }], clock);
    const { port } = server.address() as AddressInfo;
    await using rig = restRig(`http://127.0.0.1:${port}`, {}, systemClock, throttle);
    const thing = asThing({ thingId: 'thing-1', apiKey: 'key' });
    await using text = await rig.transport.firmware('1', thing, undefined, stop.signal);
    const reading = Array.fromAsync(text.chunks).catch((error: unknown) => error);
    await slept.promise;
    await expect.poll(() => replies[0]?.writableNeedDrain).toBe(true);
    expect(sent.bytes).toBeLessThan(ON_ITS_WAY_BYTES);
    stop.abort(reason);
    expect(await reading).toBe(reason);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});
