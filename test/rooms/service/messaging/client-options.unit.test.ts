import { describe, expect, test } from 'vitest';

import { clientOptions } from '../../../../src/service/messaging/broker/client-options.ts';
import { messagingSettings } from './messaging-rig.ts';

const url = 'mqtts://broker.example.com';

describe('the connection that is asked for', () => {
  test('keeps its session, with MQTT 5 for as long as it is configured', () => {
    const settings = messagingSettings(url, { keepAliveMs: 90_000, sessionExpiryMs: 7_200_000 });
    const { clean, keepalive, properties, protocolVersion } = clientOptions(settings);
    expect({ clean, keepalive, properties, protocolVersion }).toEqual({
      clean: false,
      keepalive: 90,
      properties: { sessionExpiryInterval: 7_200 },
      protocolVersion: 5,
    });
  });

  test('keeps its session with MQTT 3.1.1, which cannot say for how long', () => {
    expect(clientOptions(messagingSettings(url, { protocolVersion: 4 }))).toMatchObject({
      clean: false,
      protocolVersion: 4,
    });
    expect(clientOptions(messagingSettings(url, { protocolVersion: 4 }))).not.toHaveProperty('properties');
  });

  test('is a new one each time where no session is wanted', () => {
    expect(clientOptions(messagingSettings(url, { sessionExpiryMs: 0 })).clean).toBe(true);
  });

  test('leaves a last will where it has a status topic', () => {
    const { topics } = messagingSettings(url);
    expect(clientOptions(messagingSettings(url))).not.toHaveProperty('will');
    const { will } = clientOptions(messagingSettings(url, { topics: { ...topics, status: 'gateways/1' } }));
    expect(will).toMatchObject({ topic: 'gateways/1', qos: 1, retain: true });
    expect(JSON.parse(String(will?.payload))).toMatchObject({ state: 'offline', serialNumber: 'GW-1' });
  });

  test('is never made again, nor asked for again, by the client itself', () => {
    expect(clientOptions(messagingSettings(url))).toMatchObject({ reconnectPeriod: 0, resubscribe: false });
  });
});
