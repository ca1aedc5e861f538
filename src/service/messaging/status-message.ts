import type { Outbound } from './messages.ts';
import type { MessagingSettings } from './settings.ts';

type Told = Pick<MessagingSettings, 'serialNumber' | 'agentVersion'>;

/** Returns the message with `online`. The broker keeps it for later subscribers. */
export function birthMessage(topic: string, { serialNumber, agentVersion }: Told): Outbound {
  return { topic, text: JSON.stringify({ state: 'online', serialNumber, agentVersion }), retain: true };
}

/** Returns the message with `offline`. The broker sends it when the connection breaks, the agent when it ends. */
export function lastWill(topic: string, { serialNumber, agentVersion }: Told): Outbound {
  return { topic, text: JSON.stringify({ state: 'offline', serialNumber, agentVersion }), retain: true };
}
