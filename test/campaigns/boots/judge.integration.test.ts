import { describe, expect, test } from 'vitest';

import { testInFull } from '../../full-run.ts';
import { howMuch } from '../../full.ts';
import { judgeCuts } from './campaign.ts';
import type { JudgedCuts } from './campaign.ts';
import { SECTOR } from './disk/write-log.ts';
import { DrawnGateway } from './drawn-gateway.ts';

const CUTS = howMuch(200, 60);
const B_FIRST = 'ORDER="B A";A_OK=1;A_TRY=0;B_OK=1;B_TRY=2';
const B_KEPT = 'ORDER="B A";A_OK=1;A_TRY=0;B_OK=1;B_TRY=0';
const A_ONLY = 'ORDER=A;A_OK=1;A_TRY=0;B_OK=0;B_TRY=0';

async function judged(gateway: DrawnGateway, cuts = CUTS): Promise<JudgedCuts> {
  return judgeCuts(await gateway.recording(), { cuts, seed: 1 });
}

/** Returns a slot that GRUB can start, with a hole in one of its files, and the missing data. */
function withHole(gateway: DrawnGateway): {
  readonly image: Buffer;
  readonly sector: number;
  readonly missing: Buffer;
} {
  const image = gateway.image('v2');
  const sector = Math.floor(image.lastIndexOf('v2 v2 v2') / SECTOR);
  const missing = Buffer.from(image.subarray(sector * SECTOR, (sector + 1) * SECTOR));
  image.fill(0, sector * SECTOR, (sector + 1) * SECTOR);
  return { image, sector, missing };
}

async function stage(gateway: DrawnGateway): Promise<void> {
  const { image, sector, missing } = withHole(gateway);
  await gateway.write('rootfs-b', 0, image);
  await gateway.write('rootfs-b', sector, missing);
}

describe('the judge of power cuts', () => {
  test('finds nothing if a slot is complete and flushed before it is armed, and reported after it was committed', async () => {
    using gateway = new DrawnGateway();
    gateway.knows('v1').wants('v2');
    await stage(gateway);
    await gateway.flush().setEnvironment(B_FIRST);
    await gateway.flush().setEnvironment(B_KEPT);
    gateway.flush().knows('v2');
    const found = await judged(gateway);
    expect(found.violations).toEqual({});
    const classes = Object.keys(found.classes).join('\n');
    expect(classes).toContain('starts A with v1');
    expect(classes).toContain('starts B with v2');
  });

  test('finds a slot that is armed before it was flushed', async () => {
    using gateway = new DrawnGateway();
    gateway.knows('v1').wants('v2');
    await stage(gateway);
    await gateway.setEnvironment(B_FIRST);
    expect((await judged(gateway.flush())).violations).toHaveProperty('starts a broken slot');
  });

  testInFull('finds a fallback that is not whole', async () => {
    using gateway = new DrawnGateway();
    gateway.knows('v1').wants('v2');
    await gateway.write('rootfs-b', 0, withHole(gateway).image);
    await gateway.flush().setEnvironment('ORDER="A B";A_OK=1;A_TRY=0;B_OK=1;B_TRY=0');
    expect((await judged(gateway.flush())).violations).toEqual({
      'falls back to a broken slot': expect.any(Number) as number,
    });
  });

  const pairs = [
    { kernel: 'v1', violations: ['starts a broken slot'], starts: 'A with v1' },
    { kernel: 'v2', violations: [], starts: 'B with v2' },
  ];
  test.each(pairs.slice(0, howMuch(2, 1)))(
    'with the root of v2 and the kernel of $kernel in a slot finds $violations',
    async (given) => {
      using gateway = new DrawnGateway('pairs');
      gateway.knows('v1').wants('v2');
      await gateway.write('rootfs-b', 0, gateway.image('v2'));
      await gateway.write('kernel-b', 0, gateway.kernel(given.kernel));
      await gateway.flush().setEnvironment(B_FIRST);
      const { violations, classes } = await judged(gateway.flush());
      expect(Object.keys(violations)).toEqual(given.violations);
      expect(Object.keys(classes).join('\n')).toContain(`starts ${given.starts}`);
    },
  );

  testInFull('finds a report to the service before the commit of the slot', async () => {
    using gateway = new DrawnGateway();
    gateway.knows('v1').wants('v2');
    await stage(gateway);
    await gateway.flush().knows('v2').setEnvironment(A_ONLY);
    await gateway.setEnvironment(B_KEPT);
    expect((await judged(gateway.flush())).violations).toHaveProperty('starts another version');
  });

  testInFull('finds a disk whose bootloader has nothing to read', async () => {
    using gateway = new DrawnGateway();
    gateway.knows('v1').wants('v2');
    await gateway.write('boot', 0, Buffer.alloc(64 * 1024));
    expect((await judged(gateway.flush(), 20)).violations).toHaveProperty('starts nothing');
  });
});
