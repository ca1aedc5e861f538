import { describe, expect, test } from 'vitest';

import { ServiceError } from '../../../src/service/errors.ts';
import type { ServiceErrorCode } from '../../../src/service/errors.ts';
import { SessionRig } from './session-rig.ts';

const { signal } = new AbortController();

function failure(code: ServiceErrorCode): ServiceError {
  return new ServiceError({ code, why: 'on demand' });
}

describe('the record of the current version', () => {
  const DAY_MS = 24 * 3_600_000;

  test('is compared after a start and once a day', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    expect(await session.recordedVersion(signal)).toBeUndefined(); // the gateway is not activated
    await session.targetVersion(signal);
    expect(await session.recordedVersion(signal)).toMatchObject({ id: '1' });
    expect(await session.recordedVersion(signal)).toBeUndefined();
    rig.clock.advance(DAY_MS - 1);
    expect(await session.recordedVersion(signal)).toBeUndefined();
    rig.clock.advance(1);
    expect(await session.recordedVersion(signal)).toMatchObject({ id: '1' });
    expect(await rig.start().recordedVersion(signal)).toMatchObject({ id: '1' });
  });

  test('is compared after an activation', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    await session.recordedVersion(signal);
    rig.world.forget();
    await session.targetVersion(signal);
    expect(await session.recordedVersion(signal)).toMatchObject({ id: '1' });
  });

  test('is compared after a switch whose reply was lost', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    await session.recordedVersion(signal);
    for (let attempt = 0; attempt < 4; attempt += 1) rig.transport.failNext('switchTo', failure('connection-reset'));
    await expect(session.switchTo('2', signal)).rejects.toThrow('on demand');
    await session.switchTo('2', signal);
    expect(await session.recordedVersion(signal)).toMatchObject({ id: '2' });
  });

  test('is requested again if the service could not be reached', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    for (let attempt = 0; attempt < 4; attempt += 1)
      rig.transport.failNext('currentVersion', failure('connection-reset'));
    await expect(session.recordedVersion(signal)).rejects.toThrow('on demand');
    expect(await session.recordedVersion(signal)).toMatchObject({ id: '1' });
  });

  test('may be missing at the service, without another activation', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    rig.transport.failNext('currentVersion', failure('service-not-found'));
    expect(await session.recordedVersion(signal)).toEqual({ id: undefined });
    expect(rig.count('activate')).toBe(1);
  });
});
