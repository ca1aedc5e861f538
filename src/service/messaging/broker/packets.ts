import type { ConnectOptions, Publication } from '../../../mqtt/connection.ts';
import type { Outbound } from '../messages.ts';
import type { MessagingSettings } from '../settings.ts';
import { lastWill } from '../status-message.ts';

/** Returns the content of CONNECT, except user name and password. */
export function connectOptions(settings: MessagingSettings): ConnectOptions {
  const { protocolVersion, clientId, topics, keepAliveMs, sessionExpiryMs } = settings;
  return {
    protocolVersion,
    clientId,
    keepalive: Math.ceil(keepAliveMs / 1000),
    clean: sessionExpiryMs === 0,
    ...(protocolVersion === 5 ? { properties: { sessionExpiryInterval: Math.ceil(sessionExpiryMs / 1000) } } : {}),
    ...(topics.status === undefined ? {} : { will: willOf(topics.status, settings) }),
  };
}

function willOf(topic: string, settings: MessagingSettings): NonNullable<ConnectOptions['will']> {
  return { topic, payload: lastWill(topic, settings).text, qos: 1, retain: true };
}

export function publication({ topic, text, retain = false, request }: Outbound): Publication {
  return { topic, payload: text, retain, ...(request === undefined ? {} : { properties: requestProperties(request) }) };
}

function requestProperties(request: NonNullable<Outbound['request']>): NonNullable<Publication['properties']> {
  return {
    responseTopic: request.replyTopic,
    correlationData: Buffer.from(request.correlation),
    messageExpiryInterval: Math.ceil(request.expiryMs / 1000),
    contentType: 'application/json',
  };
}
