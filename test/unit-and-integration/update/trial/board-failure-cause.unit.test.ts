import { describe, expect, test } from 'vitest';

import { McuError } from '../../../../src/mcu/errors.ts';
import { PackageError } from '../../../../src/package/errors.ts';
import { SerialError } from '../../../../src/serial/errors.ts';
import type { ErrorMeaning } from '../../../../src/system/define-errors.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { Gateway } from '../../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { openContents } from '../board-firmware.ts';
import { blockedIn } from '../version-entries.ts';

const meanings: Readonly<Record<string, ErrorMeaning>> = {
  ...McuError.meanings,
  ...SerialError.meanings,
  ...PackageError.meanings,
};
const codes = Object.keys(meanings);
/** The codes for a fault of the release. The others are of a board, its wiring, the configuration or the disk. */
const ofRelease = [
  ...codes.filter((code) => code.startsWith('image-')),
  'board-runs-other',
  'package-malformed',
  'package-mismatch',
  'package-architecture',
  'package-refused',
  'package-restored',
  'package-changed',
];

/** Returns the gateway after a trial whose board failed with this error. */
async function failedWith(code: string): Promise<Gateway> {
  const service = new MemoryService(new Map(['none', 'new'].map((id) => [id, Buffer.from(id)])), 'none');
  service.target = 'new';
  const boards = { meter: 'old meter program' };
  const openFirmware = openContents({ new: { meter: 'new meter program' } });
  const gateway = new Gateway({ service, openFirmware, slots: { A: 'old', B: '' }, boards });
  gateway.start();
  const meter = gateway.boards.get('meter');
  const { remedy, exit } = meanings[code] ?? {};
  if (meter === undefined || remedy === undefined || exit === undefined) throw new Error('no board, or no such code');
  const flash = meter.flash.bind(meter);
  meter.flash = async () => {
    meter.flash = flash;
    throw new AgentError({ code, message: 'meter failed', remedy, exit });
  };
  expect(await gateway.look()).toMatchObject({ kind: 'rolled-back', reason: 'meter failed' });
  return gateway;
}

// Regression: a release was blocked for good, since a board was unplugged and its reset command failed.
describe('a board that fails on trial with', () => {
  test.each(codes.filter((code) => !ofRelease.includes(code)))('%s does not block the release', async (code) => {
    const gateway = await failedWith(code);
    expect(blockedIn((await gateway.journal()).state)).toEqual([]);
    await gateway.run();
    expect(gateway.boards.get('meter')?.running).toBe('new meter program');
  });

  test.each(ofRelease)('%s blocks the release', async (code) => {
    const gateway = await failedWith(code);
    expect(blockedIn((await gateway.journal()).state)).toMatchObject([{ code }]);
  });
});
