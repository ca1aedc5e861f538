import type { Outbound } from './messages.ts';
import type { MessagingSettings } from './settings.ts';

type Told = Pick<MessagingSettings, 'serialNumber' | 'agentVersion'>;

/** Kept by the broker, so that whoever asks later learns it too. */
export function birthMessage(topic: string, { serialNumber, agentVersion }: Told): Outbound {
  return { topic, text: JSON.stringify({ state: 'online', serialNumber, agentVersion }), retain: true };
}

/** Told by the broker when the connection breaks, by the agent when it ends. */
export function lastWill(topic: string, { serialNumber, agentVersion }: Told): Outbound {
  return { topic, text: JSON.stringify({ state: 'offline', serialNumber, agentVersion }), retain: true };
}
