import { randomUUID } from 'node:crypto';

import type { MessagingSettings } from '../../../../src/service/messaging/settings.ts';
import { MessagingTransport } from '../../../../src/service/messaging/transport.ts';
import type { Throttle } from '../../../../src/service/throttle.ts';
import { Traffic } from '../../../../src/service/traffic.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { RecordingLog } from '../recording-log.ts';

/** Settings as the daemon would fill them, with pauses that a test can wait for. */
export function messagingSettings(url: string, others: Partial<MessagingSettings> = {}): MessagingSettings {
  return {
    url,
    protocolVersion: 5,
    clientId: `gateway${randomUUID().slice(0, 8)}`,
    username: undefined,
    passwordFile: undefined,
    tls: {},
    topics: {
      activate: 'v1.json',
      request: 'v1.a1b2.json',
      reply: 'v1.a1b2.reply.json',
      status: undefined,
      wake: undefined,
    },
    keepAliveMs: 60_000,
    sessionExpiryMs: 3_600_000,
    maxMessageBytes: 64 * 1024 * 1024,
    deadlines: { connectMs: 60_000, requestMs: 60_000, unheardMs: 5_000, totalMs: 90_000, transferMs: 90_000 },
    reconnect: { firstDelayMs: 20, maxDelayMs: 20 },
    serialNumber: 'GW-1',
    agentVersion: 'test',
    ...others,
  };
}

export interface MessagingRig extends AsyncDisposable {
  readonly transport: MessagingTransport;
  readonly log: RecordingLog;
  readonly traffic: Traffic;
}

export function messagingRig(url: string, others: Partial<MessagingSettings> = {}, throttle?: Throttle): MessagingRig {
  const log = new RecordingLog();
  const traffic = new Traffic(systemClock);
  const transport = new MessagingTransport(messagingSettings(url, others), {
    throttle,
    traffic,
    clock: systemClock,
    random: () => 1,
    log,
  });
  return { transport, log, traffic, [Symbol.asyncDispose]: async () => transport[Symbol.asyncDispose]() };
}
