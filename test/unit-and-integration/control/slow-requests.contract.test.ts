import { once } from 'node:events';
import { createServer } from 'node:http';
import type { ServerOptions } from 'node:http';

import { expect, test } from 'vitest';

import { noServerTimeouts } from '../../../src/control/server/slow-requests.ts';

const DAY_MS = 24 * 3_600_000;

/** Interval at which Node checks the connections of a listening server. */
async function lookEveryMs(options: ServerOptions): Promise<unknown> {
  const server = createServer(options).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const name = Object.getOwnPropertySymbols(server).find(
    ({ description }) => description === 'http.server.connectionsCheckingInterval',
  );
  const timer: unknown = name === undefined ? undefined : Reflect.get(server, name);
  server.close();
  return typeof timer === 'object' && timer !== null ? Reflect.get(timer, '_repeat') : undefined;
}

test('Node checks the connections of a server all the time, also of an idle one, unless that is disabled', async () => {
  expect(await lookEveryMs({ connectionsCheckingInterval: 1_000 })).toBe(1_000);
  expect(await lookEveryMs(noServerTimeouts)).toBeGreaterThan(DAY_MS);
});
