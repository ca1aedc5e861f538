import { describe, expect, test } from 'vitest';

import { ReconnectBackoff } from '../../../../../src/service/messaging/broker/reconnect.ts';
import { defaultReconnect } from '../../../../../src/service/messaging/settings.ts';

const HOUR_MS = 3_600_000;

function pauses(random = 0.999_999): ReconnectBackoff {
  return new ReconnectBackoff({ reconnect: defaultReconnect }, () => random);
}

describe('the pauses before a broker is tried again', () => {
  test('grow from a second to two minutes', () => {
    const each = pauses();
    const found = Array.from({ length: 10 }, () => Math.round(each.nextMs({ code: 'broker-unreachable' }, 20) / 1_000));
    expect(found).toEqual([1, 2, 4, 8, 16, 32, 64, 120, 120, 120]);
  });

  /** Regression in a simulated fleet: two in three returned in the second after a broker was restarted. */
  test('are of half a minute after a good connection was lost, which a fleet loses at one moment', () => {
    const each = pauses();
    each.nextMs({ code: 'broker-unreachable' }, 20);
    const found = [HOUR_MS, 20, 20].map((lastedMs) =>
      Math.round(each.nextMs({ code: 'broker-lost' }, lastedMs) / 1_000),
    );
    expect(found).toEqual([32, 64, 120]);
    expect(pauses(0).nextMs({ code: 'broker-lost' }, HOUR_MS)).toBe(0);
  });
});
