import { existsSync, readFileSync, watch } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { artifact, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent, randomContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';

const MIB = 1024 * 1024;
const IMAGE_BYTES = 24 * MIB;
/** Slow enough for a checkpoint before its end. */
const slowly = { kind: 'drip', bytes: 64 * 1024, everyMs: 25 } as const;

test('resumes a killed transfer of a signed artifact', async () => {
  const content = Buffer.from(randomContent(IMAGE_BYTES, 3).read(0, IMAGE_BYTES));
  const release = await artifact('2', content);
  await using service = await startStandIn({ versions: [{ id: '2', firmware: bufferContent(release) }] });
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: Buffer.from('healthy 0'),
    slotBytes: 32 * MIB,
    trustedKey: releaseKey.publicPem,
  });
  service.fail({ operation: 'firmware', fault: slowly });

  const state = join(gateway.directory, 'state');
  await mkdir(state, { mode: 0o700 });
  const checkpointed = nextCheckpoint(state);
  const killed = gateway.spawn(['--update-now']);
  await checkpointed;
  await stop(killed, 'SIGKILL');
  const { exitCode } = await gateway.run('--update-now');

  expect(exitCode).toBe(0);
  expect(gateway.rebootRequested).toBe(true);
  expect((await gateway.imageOf('B', IMAGE_BYTES)).equals(content)).toBe(true);
  const [first, second, ...more] = service.callsOf('firmware').map(({ headers }) => headers['range']);
  expect({ first, more }).toEqual({ first: undefined, more: [] });
  expect(Number(/^bytes=(\d+)-$/.exec(second ?? '')?.[1])).toBeGreaterThan(16 * MIB);
}, 120_000);

/** Watches before the agent can have made it. */
function nextCheckpoint(state: string): Promise<void> {
  const journal = join(state, 'journal.json');
  const made = Promise.withResolvers<void>();
  const watcher = watch(state, () => {
    if (!existsSync(journal) || !readFileSync(journal, 'utf8').includes('"artifact"')) return;
    watcher.close();
    made.resolve();
  });
  return made.promise;
}
