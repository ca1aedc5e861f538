import type { ConnectionDeps } from '../../mqtt/connection.ts';

export interface Outbound {
  readonly topic: string;
  readonly text: string;
  readonly retain?: boolean;
  /** Sent with MQTT 5 only. */
  readonly request?: { readonly replyTopic: string; readonly correlation: string; readonly expiryMs: number };
}

export interface ConnectionEvents extends Pick<ConnectionDeps, 'onMessage' | 'onSkipped' | 'admits'> {
  /** Called when bytes of a large message arrived. */
  readonly onProgress: () => void;
  /** Called before a pause of this length, in which nothing is read because too much arrived in a short time. */
  readonly onNap: (ms: number) => void;
}
