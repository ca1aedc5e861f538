import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { SensorReport } from '../../../src/control/telemetry-protocol.ts';
import { Password } from '../../../src/web/access/password.ts';
import { hasToken, Sessions } from '../../../src/web/access/sessions.ts';
import { addressOf } from '../../../src/web/access/shares.ts';
import { availableOperations } from '../../../src/web/act/action-forms.ts';
import { orderOf } from '../../../src/web/act/actions.ts';
import { plainName } from '../../../src/web/act/upload.ts';
import { PageData } from '../../../src/web/live/page-data.ts';
import { numberOf, SensorHistory, shownOf } from '../../../src/web/live/sensor-history.ts';
import { chart } from '../../../src/web/show/chart.ts';
import { renderParts } from '../../../src/web/show/parts.ts';
import { anyCharacter } from '../../any-character.ts';
import { calmSensors, calmStatus, calmTelemetry, fakeAgent } from '../cli/fake-operations.ts';

const HOUR_MS = 3_600_000;
const never = new AbortController().signal;

describe('a session', () => {
  const clockAt = () => {
    const clock = { ms: 0, monotonicMs: () => clock.ms };
    return clock;
  };

  test('ends an hour after its last use, and twelve after its beginning', () => {
    const clock = clockAt();
    const sessions = new Sessions(clock);
    const [idle, used] = [sessions.begin(), sessions.begin()];
    clock.ms = HOUR_MS - 1;
    expect(sessions.find(used)).toBeDefined();
    clock.ms = HOUR_MS + 1;
    expect(sessions.find(idle)).toBeUndefined();
    for (; clock.ms <= 12 * HOUR_MS; clock.ms += HOUR_MS / 2) expect(sessions.find(used)).toBeDefined();
    expect(sessions.find(used)).toBeUndefined();
  });

  test('evicts the least recently used one when there are too many', () => {
    const sessions = new Sessions(clockAt());
    const [first, second] = [sessions.begin(), sessions.begin()];
    for (let more = 0; more < 62; more += 1) sessions.begin();
    expect(sessions.find(first)).toBeDefined();
    sessions.begin();
    expect([sessions.find(first), sessions.find(second)]).toEqual([expect.any(Object), undefined]);
  });

  test('has an unguessable name and token', () => {
    const sessions = new Sessions(clockAt());
    const [name, other] = [sessions.begin(), sessions.begin()];
    expect(sessions.find('')).toBeUndefined();
    const session = sessions.find(name);
    if (session === undefined) throw new Error('no session');
    expect(name).toMatch(/^[\w-]{43}$/);
    expect([session.token, sessions.find(other)?.token, '', undefined].map((it) => hasToken(session, it))).toEqual([
      true,
      false,
      false,
      false,
    ]);
    sessions.end(name);
    expect(sessions.find(name)).toBeUndefined();
  });
});

describe('a password', () => {
  // Regression: four requests of each of four addresses refused every other login.
  test('is compared however many requests wait, and a flood of one address delays others by one comparison', async () => {
    const password = await Password.of('correct horse');
    const flooders = Array.from({ length: 20 }, (_, at) => `10.0.0.${at}`);
    const compared: string[] = [];
    const compare = async (given: string, from: string): Promise<boolean> =>
      password.matches(given, from, never).finally(() => compared.push(from));
    const flood = [...flooders, ...flooders].map(async (from) => compare('wrong', from));
    expect(await compare('correct horse', '10.0.1.1')).toBe(true);
    expect(compared).toEqual([...flooders, '10.0.1.1']);
    expect(await Promise.all(flood)).not.toContain(true);
  });

  test('is not compared for a client that went away, and the next one of its address is', async () => {
    const password = await Password.of('correct horse');
    const gone = new AbortController();
    const leaving = [1, 2].map(async () => password.matches('wrong', '10.0.0.1', gone.signal));
    const staying = password.matches('correct horse', '10.0.0.1', never);
    gone.abort(new Error('gone'));
    const ends = await Promise.allSettled(leaving);
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(await staying).toBe(true);
  });
});

test('rejects a hold without a valid duration, instead of an endless one', () => {
  for (const duration of ['soon', '-1h', '1h;', '99999999999d']) {
    expect(() => orderOf(new URLSearchParams({ operation: 'hold', duration }))).toThrow('Invalid duration');
  }
  expect(orderOf(new URLSearchParams({ operation: 'hold', duration: '' }))).toEqual({ name: 'hold', input: {} });
});

test('the name of a dropped file is plain, whatever it was', () => {
  const names = fc.oneof(fc.string({ unit: anyCharacter }), fc.stringMatching(/^[\w./-]{0,150}$/));
  fc.assert(
    fc.property(names, (name) => {
      expect(plainName(name)).toMatch(/^[\w+][\w.+-]{0,99}$/);
    }),
  );
  expect(['v2.artifact', '../../etc/passwd', '.hidden', '', 'ü b'].map(plainName)).toEqual([
    'v2.artifact',
    'etc-passwd',
    'hidden',
    'file',
    'b',
  ]);
});

describe('an order', () => {
  const order = (text: string) => orderOf(new URLSearchParams(text));

  test.each([
    ['operation=update', { name: 'update', input: {} }],
    [
      'operation=hold&duration=4h&reason=+works+',
      { name: 'hold', input: { durationMs: 4 * HOUR_MS, reason: 'works' } },
    ],
    ['operation=hold&duration=&reason=', { name: 'hold', input: {} }],
    ['operation=rollback&confirm=yes&force=true', { name: 'rollback', input: {} }],
  ])('is read: %s', (text, expected) => {
    expect(order(text)).toEqual(expected);
  });

  test.each(['operation=rollback', 'operation=install&path=/etc/passwd', 'operation=toString', ''])(
    'is refused: %s',
    (text) => {
      expect(() => order(text)).toThrow(expect.objectContaining({ status: 400 }));
    },
  );

  test('is offered where it makes sense', () => {
    const busy = { ...calmStatus, activity: { process: 'the daemon' }, hold: { since: '2026-01-01' } };
    const alone = { ...calmStatus, previous: undefined, slotStates: undefined };
    expect(availableOperations(alone)).toEqual(['update', 'install', 'hold']);
    const ofFactory = { A: { bootable: true, bootsNext: false }, B: { bootable: true, bootsNext: true } };
    const back = availableOperations({ ...calmStatus, previous: undefined, booted: 'B', slotStates: ofFactory });
    expect(back).toContain('rollback');
    expect(availableOperations({ ...busy, previous: undefined, slotStates: undefined })).toEqual(['cancel', 'resume']);
    expect(availableOperations({ ...calmStatus, phase: 'trial', previous: undefined })).toContain('rollback');
  });
});

describe('the curve of a sensor', () => {
  const reading = (lastReading: string | undefined, lastReadingAgeMs = 0, name = 'a') => ({
    isLive: true,
    sensors: [{ name, outputs: [], lastReading, lastReadingAgeMs } as unknown as SensorReport],
  });

  test('has the last 120 numbers that were seen, each once', () => {
    const traces = new SensorHistory();
    for (let at = 0; at < 200; at += 1) traces.note(reading(String(at)), at * 15_000);
    traces.note(reading('199', 15_000), 200 * 15_000);
    traces.note(reading('"on"'), 201 * 15_000);
    expect(traces.of('a').map(({ value }) => value)).toEqual(Array.from({ length: 120 }, (_, at) => at + 80));
    traces.note(reading('1', 0, 'b'), 202 * 15_000);
    expect([traces.of('a'), traces.of('b').length]).toEqual([[], 1]);
  });

  test('shows what is sent, with its unit', () => {
    const [sensor = expect.fail()] = calmSensors.sensors;
    const outputs = sensor.outputs.map((output) => ({ ...output, value: '21.5', unit: '°C' as const }));
    const raw = { ...sensor, lastReading: '21500', unit: 'm°C' as const };
    expect(shownOf({ ...raw, outputs })).toEqual({ value: 21.5, unit: '°C' });
    expect(shownOf({ ...raw, outputs: [] })).toEqual({ value: 21_500, unit: 'm°C' });
  });

  test.each([
    ['21.5', 21.5],
    ['-3e2', -300],
    ['"21"', undefined],
    ['true', undefined],
    ['[1]', undefined],
    ['1e999', undefined],
    [undefined, undefined],
  ])('has no points for an invalid number: %j', (text, value) => {
    expect(numberOf(text)).toBe(value);
  });

  test('stays in its frame and describes its content in words', () => {
    const numbers = fc.array(fc.double({ noNaN: true, min: -1e12, max: 1e12 }), { minLength: 3, maxLength: 120 });
    fc.assert(
      fc.property(numbers, (values) => {
        const drawn =
          chart(
            values.map((value, at) => ({ value, atMs: at * 1_000 })),
            '°C',
          )?.text ?? '';
        const points = /points="([^"]*)"/.exec(drawn)?.[1]?.split(/[ ,]/).map(Number) ?? [];
        expect(points).toHaveLength(2 * values.length);
        expect(points.every((at, index) => at >= 0 && at <= (index % 2 === 0 ? 240 : 48))).toBe(true);
      }),
    );
    const drawn = chart(
      [1, 5, 3].map((value, at) => ({ value, atMs: at * 60_000 })),
      '<°C>',
    )?.text;
    expect(drawn).toContain('aria-label="The last 2 min: from 1 to 5 &lt;°C&gt;"');
    expect(chart([{ value: 1, atMs: 0 }], undefined)).toBeUndefined();
  });
});

describe('what is shown', () => {
  const gatherer = () => {
    const agent = fakeAgent();
    const clock = { ms: 0, monotonicMs: () => clock.ms, nowMs: () => clock.ms };
    const limits = { gatherMs: 1_000, freshMs: 1_000 };
    const looks = (): number => agent.calls.filter(([name]) => name === 'status').length;
    return { clock, looks, data: new PageData({ operations: agent, clock, limits, localOffset: () => 0 }) };
  };

  test('is gathered once for all concurrent clients, and for those soon after', async () => {
    const { clock, looks, data } = gatherer();
    const [one, other] = await Promise.all([data.snapshot(), data.snapshot()]);
    expect(one).toBe(other);
    clock.ms = 1_000;
    expect(await data.snapshot()).toBe(one);
    expect(looks()).toBe(1);
    clock.ms = 1_001;
    expect(await data.snapshot()).not.toBe(one);
  });

  test('is gathered again after a change, also while it is gathered', async () => {
    const { looks, data } = gatherer();
    const before = data.snapshot();
    data.expire();
    const after = await data.snapshot();
    expect(await before).not.toBe(after);
    expect(await data.snapshot()).toBe(after);
    expect(looks()).toBe(2);
  });

  // Regression: a power-off was called safe during an update, while readings were in memory only.
  test.each([
    [undefined, '.'],
    [{ process: 'the daemon', operation: 'update' as const }, '. An interrupted update resumes at the next start.'],
  ])('with the activity %j, names the readings that a power-off would lose', async (activity, end) => {
    const snapshot = await gatherer().data.snapshot();
    const { state } = renderParts({ ...snapshot, status: { ...calmStatus, telemetry: calmTelemetry, activity } });
    const words = 'Safe to power off, except for readings of the last seconds: first run agent queue sync';
    expect(state.text).toContain(`<p>${words}${end}</p>`);
  });
});

// Regression: of a compressed IPv6 address other bits counted, so that one host had thousands of addresses.
test.each([
  ['fe80::1:2:3:4', 'fe80:0:0:0::'],
  ['fe80::a:b:3:4', 'fe80:0:0:0::'],
  ['2001:db8::5:6:7:8', '2001:db8:0:0::'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::'],
  ['::1', '0:0:0:0::'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['192.0.2.7', '192.0.2.7'],
])('the address %s counts as %s', (remoteAddress, expected) => {
  expect(addressOf({ remoteAddress })).toBe(expected);
});
