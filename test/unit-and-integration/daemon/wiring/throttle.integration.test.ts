import { expect, test } from 'vitest';
import * as z from 'zod';

import { artifact, image, releaseKey } from '../../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent, randomContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';

const carried = z.object({ sentBytes: z.number(), receivedBytes: z.number() });
const trafficOf = z.object({ traffic: z.object({ lastDay: carried, sinceStart: carried }) });
const IMAGE_BYTES = 1_000_000;

test('reports a download that the daemon slows down as such, and completes it, with its cost', async () => {
  const content = Buffer.from(randomContent(IMAGE_BYTES, 3).read(0, IMAGE_BYTES));
  const firmware = bufferContent(await artifact('1', Buffer.concat([image('healthy 1'), content])));
  await using service = await startStandIn({ versions: [{ id: '1', firmware }] });
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: image('healthy 0'),
    slotBytes: 4_000_000,
    trustedKey: releaseKey.publicPem,
    serviceToml:
      'max_rate = [{ window = "00:00-23:59", rate = "256KiB/s" }, { rate = "256KiB/s" }]\ntimeouts = { transfer = "2s" }',
    splay: '1h',
  });
  await gateway.startDaemon();
  const update = gateway.json('--update-now');
  await expect
    .poll(async () => gateway.json('status'), { interval: 100 })
    .toMatchObject({ state: 'busy', throttle: { bytesPerSecond: 256 * 1024 } });
  const page = (await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ');
  expect(page).toContain('Rate limit downloads use at most 256.0 KiB/s: [service] max_rate');
  expect(await update).toMatchObject({ outcome: { kind: 'rebooting', version: '1' } });
  const { traffic } = trafficOf.parse(await gateway.json('status'));
  expect(traffic.lastDay).toEqual(traffic.sinceStart);
  expect(traffic.sinceStart.receivedBytes).toBeGreaterThan(IMAGE_BYTES);
  expect(traffic.sinceStart.receivedBytes).toBeLessThan(2 * IMAGE_BYTES);
  expect(traffic.sinceStart.sentBytes).toBeGreaterThan(100);
}, 120_000);
