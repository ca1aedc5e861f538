import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { testInFull } from '../../full-run.ts';
import { howMuch } from '../../full.ts';
import { writeArtifact } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import { fileContent } from '../service/firmware-content.ts';
import type { FirmwareContent } from '../service/firmware-content.ts';
import { startStandIn } from '../service/stand-in.ts';
import { FileGateway } from './file-gateway.ts';
import {
  firstDifference,
  LARGE_BYTES,
  LARGE_SLOT_BYTES,
  largeImage,
  largePayload,
  peakRssMiB,
} from './large-images.ts';

/** 120 to 130 on a machine with nothing else to do, which `npm run bench` measures; a leak of a hundredth would be 42 more. */
const PEAK_RSS_MIB = 145;
const GIB = 2 ** 30;
/** In part, what is beyond 2³² bytes is shown by firmware/large-image and slots/loop-slots alone. */
const RAW_BYTES = howMuch(LARGE_BYTES, 100 * 2 ** 20 + 4099);
const keys = makeKeyPair('ecdsa-p256', 'release.pem');

interface Installed {
  readonly firstDifference: number | undefined;
  readonly peakRssMiB: number;
  readonly seconds: number;
}

/** The real program, up to the reboot. */
async function install(firmware: FirmwareContent, sizeBytes: number, trustedKey?: string): Promise<Installed> {
  await using service = await startStandIn({ versions: [{ id: 'large', firmware }] });
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: Buffer.from('factory'),
    slotBytes: LARGE_SLOT_BYTES,
    trustedKey,
  });
  const startMs = performance.now();
  const agent = gateway.spawn(['--update-now', '--no-reboot'], 'inherit');
  const peak = await peakRssMiB(agent);
  const seconds = (performance.now() - startMs) / 1000;
  expect(agent.exitCode).toBe(0);
  return { firstDifference: await firstDifference(gateway.slots.B, sizeBytes), peakRssMiB: peak, seconds };
}

testInFull(
  'a signed artifact of 4.2 GiB, compressed, is installed in constant memory, right beyond 2³² bytes',
  async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'large-'));
    const path = join(folder.path, 'large.mender');
    const files = [{ name: 'rootfs.ext4', content: largePayload }];
    const options = {
      name: 'large',
      devices: ['demo-gateway'],
      files,
      compression: 'zstd',
      key: keys.privateKey,
    } as const;
    await writeArtifact(path, options);
    const installed = await install(fileContent(path), LARGE_BYTES, keys.publicPem);
    console.log(installed);
    expect(installed.firstDifference).toBeUndefined();
    expect(installed.peakRssMiB).toBeLessThanOrEqual(PEAK_RSS_MIB);
  },
);

test(`installs a complete raw image of ${(RAW_BYTES / GIB).toFixed(1)} GiB, as base64, in constant memory`, async () => {
  const installed = await install(largeImage(RAW_BYTES), RAW_BYTES);
  console.log(installed);
  expect(installed.firstDifference).toBeUndefined();
  expect(installed.peakRssMiB).toBeLessThanOrEqual(PEAK_RSS_MIB);
});
