import { describe, expect, test } from 'vitest';

import { connectOptions } from '../../../../../src/service/messaging/broker/broker-connection.ts';
import type { MessagingSettings } from '../../../../../src/service/messaging/settings.ts';
import { messagingSettings } from '../messaging-rig.ts';

function asked(others: Partial<MessagingSettings> = {}): ReturnType<typeof connectOptions> {
  return connectOptions(messagingSettings('mqtts://broker.example.com', others));
}

describe('the requested connection', () => {
  test('keeps its session, with MQTT 5 for as long as it is configured', () => {
    const { clean, keepalive, properties, protocolVersion } = asked({
      keepAliveMs: 90_000,
      sessionExpiryMs: 7_200_000,
    });
    expect({ clean, keepalive, properties, protocolVersion }).toEqual({
      clean: false,
      keepalive: 90,
      properties: { sessionExpiryInterval: 7_200 },
      protocolVersion: 5,
    });
  });

  test('keeps its session with MQTT 3.1.1, which cannot say for how long', () => {
    expect(asked({ protocolVersion: 4 })).toMatchObject({ clean: false, protocolVersion: 4 });
    expect(asked({ protocolVersion: 4 })).not.toHaveProperty('properties');
  });

  test('is a new one each time where no session is wanted', () => {
    expect(asked({ sessionExpiryMs: 0 }).clean).toBe(true);
  });

  test('leaves a last will where it has a status topic', () => {
    const { topics } = messagingSettings('mqtts://any');
    expect(asked()).not.toHaveProperty('will');
    const { will } = asked({ topics: { ...topics, status: 'gateways/1' } });
    expect(will).toMatchObject({ topic: 'gateways/1', qos: 1, retain: true });
    expect(JSON.parse(String(will?.payload))).toMatchObject({ state: 'offline', serialNumber: 'GW-1' });
  });
});
