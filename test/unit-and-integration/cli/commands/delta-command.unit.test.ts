import { describe, expect, test } from 'vitest';

import type { DeltaOrder } from '../../../../src/firmware/delta/write-delta.ts';
import { fakeContext, type as typeAt } from '../fake-context.ts';

const NEEDED = '--name 1.5.0 --device-type my-board';

async function type(line: string) {
  const orders: DeltaOrder[] = [];
  const world = fakeContext();
  const typed = await typeAt(`artifact delta old.img new.img ${line}`.trim().split(' '), {
    writeDelta: async (order, signal) => {
      orders.push(order);
      return world.writeDelta(order, signal);
    },
  });
  return { ...typed, orders };
}

describe('agent artifact delta', () => {
  test.each([
    ['--device-type my-board', '--name is missing'],
    ['--name 1.5.0', '--device-type is missing'],
    [`${NEEDED} --security-version two`, '--security-version two is not a whole number'],
  ])('refuses «%s» as an error of usage that names the option', async (line, told) => {
    const { exitCode, err, orders } = await type(line);
    expect(exitCode).toBe(64);
    expect(err.replaceAll(/\s+/g, ' ')).toContain(told);
    expect(orders).toEqual([]);
  });

  test('names the required options in its usage', async () => {
    const { err } = await type('');
    expect(err.replaceAll(/\s+/g, ' ')).toContain(
      'delta OLD NEW --name NAME --device-type TYPE [--key FILE] [--target',
    );
  });

  test('reads files relative to the working directory, and prints the size of the artifact', async () => {
    const { exitCode, out, orders } = await type(`${NEEDED} --key keys/private.pem`);
    expect(exitCode).toBe(0);
    expect(orders).toEqual([
      {
        base: '/home/technician/old.img',
        result: '/home/technician/new.img',
        name: '1.5.0',
        deviceType: 'my-board',
        target: undefined,
        securityVersion: undefined,
        key: '/home/technician/keys/private.pem',
        output: '/home/technician/1.5.0.delta.mender',
      },
    ]);
    expect(out).toContain("/home/technician/1.5.0.delta.mender: 68.4 KiB, 7.0 % of the image's 976.6 KiB.");
    expect(out).not.toContain('mender-artifact sign');
  });

  test('explains signing if no key was given, and writes to the given path', async () => {
    const { out } = await type(`${NEEDED} --output /srv/d.mender`);
    expect(out).toContain('Sign it: mender-artifact sign /srv/d.mender --key PRIVATE_KEY');
  });

  test('returns everything that was written to a program', async () => {
    const { out } = await type(`${NEEDED} --json`);
    expect(JSON.parse(out)).toMatchObject({ deltaBytes: 70_000, base: { sizeBytes: 1_000_000 } });
  });
});
