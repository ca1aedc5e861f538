import { createHash } from 'node:crypto';

import type { Config } from '../../config/config.ts';
import type { ServiceTransport, TransportDeps } from '../../service/contract.ts';
import { defaultReconnect, defaultUnheardMs } from '../../service/messaging/settings.ts';
import type { MessagingSettings } from '../../service/messaging/settings.ts';
import type { MessagingTransport } from '../../service/messaging/transport.ts';
import { proxyFromEnvironment } from '../../service/rest/connection/proxy.ts';
import { defaultResume } from '../../service/rest/settings.ts';
import { RestTransport } from '../../service/rest/transport.ts';
import type { ServiceMessagingSettings as ConfiguredMessaging } from '../../service/settings.ts';
import { Throttle } from '../../service/throttle.ts';
import type { Traffic } from '../../service/traffic.ts';
import type { Runtime } from './wiring.ts';

/** Wires the service. The REST form always exists, since some operations exist only in it. */
export async function wireService(
  config: Config,
  world: Runtime & { readonly traffic: Traffic },
  serialNumber: string,
) {
  await using opened = new AsyncDisposableStack();
  const { maxRates } = config.service;
  const throttle = maxRates.length === 0 ? undefined : new Throttle(maxRates, world.clock);
  const deps = { ...world, throttle };
  const proxy = proxyFromEnvironment(world.environment);
  const userAgent = `thing-agent/${world.agentVersion}`;
  const rest = opened.use(new RestTransport({ ...config.service, proxy, resume: defaultResume, userAgent }, deps));
  const { transport: preferred, messaging: configured } = config.service;
  const messaging =
    configured === undefined || !needsBroker(configured)
      ? undefined
      : opened.use(await openMessaging(messagingSettings(config, configured, { ...world, serialNumber }), deps));
  const provisioning = messaging !== undefined && preferred === 'messaging' ? messaging : rest;
  const firmware = messaging !== undefined && configured?.firmwareTransport === 'messaging' ? messaging : rest;
  const resources = opened.move();
  const transport: ServiceTransport =
    messaging === undefined
      ? rest
      : {
          call: async (operation, input, signal) =>
            (operation.rpc === undefined ? rest : provisioning).call(operation, input, signal),
          firmware: firmware.firmware.bind(firmware),
        };
  return {
    transport,
    /**
     * Throws a ServiceError if no connection comes about over which this gateway could be activated. The broker's
     * connection reports its own state.
     */
    reach: async (signal: AbortSignal) => (provisioning === rest ? rest.reach(signal) : undefined),
    /** Absent without a broker: no MQTT code is loaded. */
    messaging,
    /** The limit of downloads. Absent without a configured rate. */
    throttle,
    [Symbol.asyncDispose]: async () => resources.disposeAsync(),
  };
}

function needsBroker({ topics: { reply, wake, status } }: ConfiguredMessaging): boolean {
  return (reply ?? wake ?? status) !== undefined;
}

async function openMessaging(settings: MessagingSettings, deps: TransportDeps): Promise<MessagingTransport> {
  const { MessagingTransport: Transport } = await import('../../service/messaging/transport.ts');
  return new Transport(settings, deps);
}

function messagingSettings(
  { service }: Config,
  configured: ConfiguredMessaging,
  { serialNumber, agentVersion }: Pick<MessagingSettings, 'serialNumber' | 'agentVersion'>,
): MessagingSettings {
  const { clientId = clientIdOf(serialNumber), requestTimeoutMs } = configured;
  return {
    ...configured,
    clientId,
    deadlines: {
      connectMs: service.deadlines.connectMs,
      requestMs: requestTimeoutMs,
      unheardMs: defaultUnheardMs,
      totalMs: Math.max(service.deadlines.totalMs, requestTimeoutMs),
      transferMs: service.deadlines.transferMs,
    },
    reconnect: defaultReconnect,
    serialNumber,
    agentVersion,
  };
}

/** The same id at each start, of a kind that every broker accepts (MQTT 3.1.1, section 3.1.3.1). */
function clientIdOf(serialNumber: string): string {
  return `thingagent${createHash('sha256').update(serialNumber).digest('hex').slice(0, 13)}`;
}
