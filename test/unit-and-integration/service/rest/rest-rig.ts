import type { RestSettings } from '../../../../src/service/rest/settings.ts';
import { RestTransport } from '../../../../src/service/rest/transport.ts';
import type { Throttle } from '../../../../src/service/throttle.ts';
import { Traffic } from '../../../../src/service/traffic.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import type { Clock } from '../../../../src/system/time/clock.ts';
import { RecordingLog } from '../recording-log.ts';

/** Settings as the daemon would fill them, with pauses that a test can wait for. */
export function restSettings(url: string, others: Partial<RestSettings> = {}): RestSettings {
  return {
    url,
    keyOnProvisioning: true,
    tls: {},
    proxy: {},
    deadlines: {
      connectMs: 20_000,
      firstByteMs: 60_000,
      idleMs: 60_000,
      totalMs: 120_000,
      transferMs: 24 * 3_600_000,
    },
    propertyText: 'json',
    resume: { attempts: 3, firstDelayMs: 1, maxDelayMs: 1, maxRetryAfterMs: 1 },
    userAgent: 'thing-agent/test',
    ...others,
  };
}

export interface RestRig extends AsyncDisposable {
  readonly transport: RestTransport;
  readonly log: RecordingLog;
  readonly traffic: Traffic;
}

export function restRig(
  baseUrl: string,
  others: Partial<RestSettings> = {},
  clock: Clock = systemClock,
  throttle?: Throttle,
): RestRig {
  const log = new RecordingLog();
  const traffic = new Traffic(systemClock);
  const transport = new RestTransport(restSettings(baseUrl, others), {
    clock,
    random: () => 0,
    log,
    throttle,
    traffic,
  });
  return { transport, log, traffic, [Symbol.asyncDispose]: async () => transport[Symbol.asyncDispose]() };
}

export async function readAll(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(Buffer.from(chunk));
  return Buffer.concat(all);
}
