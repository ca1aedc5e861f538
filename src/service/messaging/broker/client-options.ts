import type { IClientOptions, IPublishPacket } from 'mqtt';

import type { Outbound } from '../messages.ts';
import type { MessagingSettings } from '../settings.ts';
import { lastWill } from '../status-message.ts';

/** Quality of service. */
export const AT_LEAST_ONCE = 1;

/** What MQTT.js needs to know. Connecting again, and subscribing again, are ours. */
export function clientOptions(settings: MessagingSettings): IClientOptions {
  const { protocolVersion, clientId, username, topics, keepAliveMs, sessionExpiryMs, deadlines } = settings;
  return {
    protocolVersion,
    protocolId: 'MQTT',
    clientId,
    ...(username === undefined ? {} : { username }),
    keepalive: Math.ceil(keepAliveMs / 1000),
    clean: sessionExpiryMs === 0,
    ...(protocolVersion === 5 ? { properties: { sessionExpiryInterval: Math.ceil(sessionExpiryMs / 1000) } } : {}),
    ...(topics.status === undefined ? {} : { will: willOf(topics.status, settings) }),
    connectTimeout: deadlines.connectMs,
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    timerVariant: 'native',
    log: () => {},
  };
}

function willOf(topic: string, settings: MessagingSettings): NonNullable<IClientOptions['will']> {
  return { topic, payload: lastWill(topic, settings).text, qos: AT_LEAST_ONCE, retain: true };
}

export function requestProperties(
  request: NonNullable<Outbound['request']>,
): NonNullable<IPublishPacket['properties']> {
  return {
    responseTopic: request.replyTopic,
    correlationData: Buffer.from(request.correlation),
    messageExpiryInterval: Math.ceil(request.expiryMs / 1000),
    contentType: 'application/json',
  };
}
