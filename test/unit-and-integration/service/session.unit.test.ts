import { describe, expect, test } from 'vitest';

import { ServiceError } from '../../../src/service/errors.ts';
import type { ServiceErrorCode } from '../../../src/service/errors.ts';
import { seededRandom } from '../../fakes/machine/power.ts';
import { readAll } from './rest/rest-rig.ts';
import { SERIAL_NUMBER, SessionRig } from './session-rig.ts';

const { signal } = new AbortController();

function failure(code: ServiceErrorCode, retryAfterMs?: number): ServiceError {
  return new ServiceError({ code, why: 'on demand', retryAfterMs });
}

describe('a session', () => {
  test('activates before its first call, and only once', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    const [version] = await Promise.all([session.targetVersion(signal), session.currentVersion(signal)]);
    expect(version).toEqual({ id: '1', name: '1', description: undefined });
    expect(rig.count('activate')).toBe(1);
    expect(await session.thing(signal)).toEqual({ serialNumber: SERIAL_NUMBER, thingId: 'thing-1' });
  });

  // Regression: "not reached since the start" after an automatic activation.
  test('counts an activation as a contact', async () => {
    const session = new SessionRig().start();
    await session.thing(signal);
    expect(session.contact).toEqual({ lastError: undefined, lastContactAt: '2027-01-01T00:00:00.000Z' });
  });

  test('keeps its identity over a restart', async () => {
    const rig = new SessionRig();
    await rig.start().targetVersion(signal);
    await rig.start().targetVersion(signal);
    expect(rig.count('activate')).toBe(1);
  });

  test('hands every call through', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    expect(await session.updates('1', signal)).toEqual([{ id: '2', name: '2', description: undefined }]);
    await session.switchTo('2', signal);
    expect(await session.currentVersion(signal)).toMatchObject({ id: '2' });
    await session.setProperty('p', { a: 1 }, signal);
    expect(await session.property('p', signal)).toEqual({ a: 1 });
    const points = [{ value: 1, at: '2027-01-01T00:00:00.000Z' }];
    await session.postDatapoints('e', points, signal);
    expect(rig.world.things[0]?.datapoints.get('e')).toEqual(points);
  });

  test('activates whenever an operator requests it', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    expect(await session.activate(signal)).toEqual({ serialNumber: SERIAL_NUMBER, thingId: 'thing-1' });
    expect(rig.count('activate')).toBe(2);
    await session.targetVersion(signal);
    expect(rig.count('activate')).toBe(2);
  });
});

describe('a check', () => {
  // Regression: agent doctor, which changes nothing, activated a gateway whose thing was gone, and used up the way to do so.
  test('returns the service’s record of this gateway, and activates nothing', async () => {
    const rig = new SessionRig();
    expect(await rig.start().readCurrent(signal)).toBeUndefined();
    await rig.start().activate(signal);
    expect(await rig.start().readCurrent(signal)).toMatchObject({ thingId: 'thing-1', version: { id: '1' } });
    rig.dropKey();
    await expect(rig.start().readCurrent(signal)).rejects.toMatchObject({ code: 'key-rejected' });
    rig.transport.failNext('currentVersion', failure('service-not-found'));
    await expect(rig.start().readCurrent(signal)).rejects.toMatchObject({ code: 'service-not-found' });
    expect(rig.count('activate')).toBe(1);
  });
});

describe('when the key was dropped', () => {
  test('a session activates again, stores the new key and makes the call', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    rig.dropKey();
    expect(await session.targetVersion(signal)).toMatchObject({ id: '1' });
    expect(rig.count('activate')).toBe(2);
    expect(rig.disk.read('/state/identity.json')).toContain(rig.world.things[0]?.apiKey);
  });

  test('many concurrent calls cost one activation', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    rig.dropKey();
    await Promise.all([1, 2, 3, 4].map(async () => session.targetVersion(signal)));
    expect(rig.count('activate')).toBe(2);
  });

  test('by another process of this gateway, its key is taken from the disk instead of a third activation', async () => {
    const rig = new SessionRig();
    const [daemon, tool] = [rig.start(), rig.start()];
    await daemon.targetVersion(signal);
    await tool.activate(signal);
    await daemon.targetVersion(signal);
    expect(rig.count('activate')).toBe(2);
  });

  test('a session reports after repeated losses that another device has the serial number, and slows down', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    for (let round = 0; round < 4; round += 1) {
      await session.targetVersion(signal);
      rig.dropKey();
    }
    const before = rig.count('activate');
    const shared = session.targetVersion(signal);
    await expect(shared).rejects.toMatchObject({ code: 'serial-number-shared', retryAfterMs: 3_600_000 });
    await expect(shared).rejects.toThrow(`serial number ${SERIAL_NUMBER}`);
    expect(rig.count('activate')).toBe(before);
    rig.clock.advance(3_600_000);
    expect(await session.targetVersion(signal)).toMatchObject({ id: '1' });
  });

  // Regression: a service that rejected everything was reported as a proof of another device with this serial number.
  test.each(['activation-refused', 'activation-timeout'] as const)(
    'and activations end in %s, they become rare under that code, and prove no other device',
    async (code) => {
      const rig = new SessionRig();
      const shared: number[] = [];
      const session = rig.start(undefined, () => shared.push(rig.clock.monotonicMs()));
      await session.targetVersion(signal);
      rig.dropKey();
      for (let round = 0; round < 6; round += 1) {
        rig.transport.failNext('activate', new ServiceError({ code, why: 'on demand', isAnswer: true }));
        const refused = session.targetVersion(signal);
        await expect(refused).rejects.toMatchObject({ code, retryAfterMs: undefined });
        await expect(refused).rejects.toThrow(
          round < 3 ? /^on demand$/ : /^on demand; .* within the hour; to retry now: /,
        );
      }
      expect(rig.count('activate')).toBe(1 + 3);
      expect(shared).toEqual([]);
    },
  );

  test('and activations succeed again after rejected ones, the session continues within the hour', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    rig.dropKey();
    for (let round = 0; round < 3; round += 1) {
      rig.transport.failNext('activate', failure('activation-refused'));
      await expect(session.targetVersion(signal)).rejects.toMatchObject({ code: 'activation-refused' });
    }
    await session.activate(signal);
    expect(await session.targetVersion(signal)).toMatchObject({ id: '1' });
    rig.dropKey();
    expect(await session.targetVersion(signal)).toMatchObject({ id: '1' });
  });

  test('and the new one is rejected too, the call fails without more activations', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    rig.transport.failNext('targetVersion', failure('key-rejected'));
    rig.transport.failNext('targetVersion', failure('key-rejected'));
    await expect(session.targetVersion(signal)).rejects.toMatchObject({ code: 'key-rejected' });
    expect(rig.count('activate')).toBe(2);
    expect(rig.clock.slept).toEqual([]);
  });
});

describe('when the service no longer knows the thing', () => {
  test('activation creates it again, and the call continues', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await session.targetVersion(signal);
    rig.world.things.pop();
    expect(await session.targetVersion(signal)).toMatchObject({ id: '1' });
    expect(rig.count('activate')).toBe(2);
    expect(rig.disk.read('/state/identity.json')).toContain(rig.world.things[0]?.apiKey);
    expect(rig.log.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });

  test('and activation does not help, that is not tried again for hours', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    const look = async (): Promise<unknown> => {
      rig.transport.failNext('currentVersion', failure('service-not-found'));
      rig.transport.failNext('currentVersion', failure('service-not-found'));
      return session.currentVersion(signal).catch((error: unknown) => error);
    };
    for (let times = 0; times < 4; times += 1) expect(await look()).toMatchObject({ code: 'service-not-found' });
    expect(rig.count('activate')).toBe(2);
    rig.clock.advance(6 * 3_600_000);
    await look();
    expect(rig.count('activate')).toBe(3);
  });

  test('it is not made again because a version or a property is unknown', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    await expect(session.property('none', signal)).rejects.toMatchObject({ code: 'service-not-found' });
    await expect(session.switchTo('none', signal)).rejects.toMatchObject({ code: 'service-not-found' });
    expect(rig.count('activate')).toBe(1);
  });
});

describe('when a call fails', () => {
  test.each([
    'connection-reset',
    'service-unavailable',
    'service-failed',
    'idle-timeout',
    'reply-timeout',
    'broker-lost',
  ] as const)('%s is tried again after pauses that grow', async (code) => {
    const rig = new SessionRig();
    const session = rig.start();
    for (let times = 0; times < 3; times += 1) rig.transport.failNext('targetVersion', failure(code));
    expect(await session.targetVersion(signal)).toMatchObject({ id: '1' });
    expect(rig.clock.slept).toEqual([500, 1_000, 2_000]);
    expect(rig.log.lines.filter(({ level }) => level === 'warn')).toHaveLength(3);
  });

  test('stops after a limited number of attempts', async () => {
    const rig = new SessionRig();
    for (let times = 0; times < 10; times += 1) rig.transport.failNext('switchTo', failure('connection-refused'));
    await expect(rig.start().switchTo('1', signal)).rejects.toMatchObject({ code: 'connection-refused' });
    expect(rig.count('switchTo')).toBe(4);
    const again = rig.log.lines.filter(({ level }) => level === 'warn');
    expect(again.map(({ message }) => /; (trying again .*)$/.exec(message)?.[1])).toEqual([
      'trying again (2 of 4)',
      'trying again (3 of 4)',
      'trying again (4 of 4)',
    ]);
    expect(again.map(({ fields }) => Object.keys(fields))).toEqual([['code'], ['code'], ['code']]);
  });

  test.each(['service-not-found', 'service-rejected', 'service-too-large', 'key-required', 'clock-wrong'] as const)(
    '%s is not tried again',
    async (code) => {
      const rig = new SessionRig();
      rig.transport.failNext('updates', failure(code));
      await expect(rig.start().updates('1', signal)).rejects.toMatchObject({ code });
      expect(rig.count('updates')).toBe(1);
    },
  );

  test.each(['activation-refused', 'activation-timeout'] as const)(
    '%s causes no second activation in the same call',
    async (code) => {
      const rig = new SessionRig();
      rig.transport.failNext('activate', failure(code));
      await expect(rig.start().targetVersion(signal)).rejects.toMatchObject({ code });
      expect(rig.count('activate')).toBe(1);
    },
  );

  test('what the service asks for is waited, but not longer than a caller would', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    rig.transport.failNext('targetVersion', failure('service-unavailable', 20_000));
    await session.targetVersion(signal);
    expect(rig.clock.slept).toEqual([20_000 + 0.5 * 15_000]); // and what is drawn comes after it
    rig.transport.failNext('targetVersion', failure('service-unavailable', 600_000));
    await expect(session.targetVersion(signal)).rejects.toMatchObject({ retryAfterMs: 600_000 });
    expect(rig.clock.slept).toEqual([20_000 + 0.5 * 15_000]);
  });

  test('datapoints are not posted twice', async () => {
    const rig = new SessionRig();
    rig.transport.failNext('postDatapoints', failure('connection-reset'));
    await expect(rig.start().postDatapoints('e', [], signal)).rejects.toMatchObject({ code: 'connection-reset' });
    expect(rig.count('postDatapoints')).toBe(1);
  });

  test('an aborted signal’s reason comes through untouched', async () => {
    const reason = new Error('stop');
    const rig = new SessionRig();
    await expect(rig.start().targetVersion(AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test('the contact tells what went wrong last and when the service was heard', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    expect(session.contact).toEqual({ lastError: undefined, lastContactAt: undefined });
    rig.transport.failNext('activate', failure('activation-refused'));
    await expect(session.targetVersion(signal)).rejects.toThrow('on demand');
    expect(session.contact).toEqual({ lastError: 'on demand', lastContactAt: undefined });
    await session.targetVersion(signal);
    expect(session.contact).toEqual({ lastError: undefined, lastContactAt: '2027-01-01T00:00:00.000Z' });
  });

  // Regression: "not reached since the start" of a service that had answered with 404.
  test('the status shows a reply with an error, until a call succeeded', async () => {
    const rig = new SessionRig();
    const session = rig.start();
    const answer = { code: 'activation-refused', why: 'on demand', isAnswer: true } as const;
    rig.transport.failNext('activate', new ServiceError(answer));
    await expect(session.targetVersion(signal)).rejects.toThrow('on demand');
    expect(session.contact).toMatchObject({ lastContactAt: undefined, lastRefusalAt: '2027-01-01T00:00:00.000Z' });
    await session.targetVersion(signal);
    expect(session.contact.lastRefusalAt).toBeUndefined();
  });

  test('a stored identity is not a contact', async () => {
    const rig = new SessionRig();
    await rig.start().targetVersion(signal);
    const session = rig.start();
    await session.thing(signal);
    expect(session.contact.lastContactAt).toBeUndefined();
  });
});

describe('firmware through a session', () => {
  test('can be opened as often as needed', async () => {
    const rig = new SessionRig();
    const source = rig.start().firmware('1');
    expect(source.form).toBe('json-string');
    for (let times = 0; times < 2; times += 1) {
      await using transfer = await source.open(undefined, signal);
      expect((await readAll(transfer.chunks)).byteLength).toBe(transfer.totalBytes);
    }
  });
});

describe('an activation that power loss interrupts', () => {
  test('heals itself: whatever the disk remembers, the next start gets a key that works', async () => {
    const cuts = Array.from({ length: 6 }, (_, cut) => cut);
    const seeds = Array.from({ length: 20 }, (_, seed) => seed);
    for (const [cut, seed] of cuts.flatMap((each) => seeds.map((one) => [each, one] as const))) {
      const rig = new SessionRig(seededRandom(seed));
      await rig.start().targetVersion(signal);
      rig.dropKey();
      rig.power.cutAfter(cut);
      await rig.start().targetVersion(signal);
      rig.power.restore();
      rig.disk.forget();
      expect(await rig.start().targetVersion(signal)).toMatchObject({ id: '1' });
    }
  });

  test('a disk that can neither be read nor written does not keep the gateway from working, either', async () => {
    const rig = new SessionRig();
    await rig.start().currentVersion(signal);
    rig.disk.unreadable = 'EIO';
    rig.disk.unchangeable = 'EIO';
    const session = rig.start();
    await session.currentVersion(signal);
    await session.currentVersion(signal);
    expect(rig.count('activate')).toBe(2);
    expect(rig.log.lines.find(({ level }) => level === 'error')).toMatchObject({
      fields: { code: 'state-unavailable' },
    });
  });

  test('a full disk does not keep the gateway from working, and its identity is stored later', async () => {
    const rig = new SessionRig();
    rig.disk.full = true;
    const session = rig.start();
    await session.targetVersion(signal);
    expect(rig.log.lines.filter(({ level }) => level === 'error')).toMatchObject([{ fields: { code: 'disk-full' } }]);
    rig.disk.full = false;
    await session.targetVersion(signal);
    expect(rig.disk.read('/state/identity.json')).toContain(rig.world.things[0]?.apiKey);
    expect(rig.count('activate')).toBe(1);
  });
});

test('each activation is reported, whatever an older thing was denied', async () => {
  const rig = new SessionRig();
  let told = 0;
  const session = rig.start(() => (told += 1));
  await session.targetVersion(signal);
  await session.targetVersion(signal);
  expect(told).toBe(1);
  rig.dropKey();
  await session.targetVersion(signal);
  await session.activate(signal);
  expect(told).toBe(3);
});
