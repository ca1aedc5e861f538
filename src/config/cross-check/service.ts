import type { Finding } from '../cross-check.ts';
import type { ConfigFile } from '../schema/schema.ts';
import { brokerContradictions, findingOf, tlsContradictions } from './brokers.ts';

export function serviceContradictions(service: ConfigFile['service']): readonly Finding[] {
  const { messaging } = service;
  const findings = [...tlsContradictions(['service'], service)];
  if (isPlainHttp(service.url) && !service.insecure) findings.push(plainHttp);
  if (messaging !== undefined && isPlainMqtt(messaging.url) && !service.insecure) findings.push(plainMqtt);
  if (messaging === undefined) {
    if (service.transport === 'messaging') {
      findings.push({
        path: ['service', 'transport'],
        message: 'service.transport = "messaging" needs a table [service.messaging]',
      });
    }
    return findings;
  }
  return [...findings, ...messagingContradictions(messaging)];
}

const plainHttp: Finding = {
  path: ['service', 'url'],
  message:
    'service.url is plain http to another machine: an attacker on the network can read the API key and offer ' +
    'older releases; write https://, or set service.insecure = true',
};

export function isPlainHttp(url: string): boolean {
  return url.startsWith('http://') && !isLoopback(url);
}

const plainMqtt: Finding = {
  path: ['service', 'messaging', 'url'],
  message:
    'service.messaging.url is plain mqtt to another machine: an attacker on the network can read the API key and the ' +
    'password, and offer older releases; write mqtts://, or set service.insecure = true',
};

export function isPlainMqtt(url: string): boolean {
  return url.startsWith('mqtt://') && !isLoopback(url);
}

type Messaging = NonNullable<ConfigFile['service']['messaging']>;

const topicKeys = ['activate_topic', 'request_topic', 'reply_topic', 'status_topic', 'wake_topic'] as const;

function messagingContradictions(messaging: Messaging): readonly Finding[] {
  const table = ['service', 'messaging'];
  const findings = [...brokerContradictions(table, messaging)];
  const wrong = (key: keyof Messaging, why: string): void => void findings.push(findingOf([...table, key], why));
  for (const key of topicKeys) {
    if (messaging.topic_id === undefined && messaging[key]?.includes('{topic_id}') === true) {
      wrong(key, 'contains {topic_id}: set service.messaging.topic_id');
    }
  }
  for (const own of ['status_topic', 'wake_topic'] as const) {
    const other = topicKeys.find((key) => key !== own && messaging[key] === messaging[own]);
    if (messaging[own] !== undefined && other !== undefined) wrong(own, `is the same as ${other}`);
  }
  return findings;
}

function isLoopback(url: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname);
}
