import { createServer } from 'node:http';

import { expect, test } from 'vitest';

import { controlClient } from '../../../../src/control/client/control-client.ts';
import { forever, runDirectory } from '../control-rig.ts';

// Regression: "unknown path" for a request that a later version of this program makes.
test('an older daemon is named as the reason for an unknown request', async () => {
  await using directory = await runDirectory();
  await using server = createServer((_, response) => {
    const error = { code: 'control-route-unknown', message: 'unknown path', exit: 'usage' };
    response.writeHead(404, { connection: 'close' }).end(JSON.stringify({ error }));
  });
  await new Promise<void>((resolve) => server.listen({ path: directory.socket }, resolve));
  await expect(controlClient(directory.socket).status({}, forever)).rejects.toMatchObject({
    code: 'control-route-unknown',
    message: /older than this program/,
    advice: /systemctl restart/,
  });
});
