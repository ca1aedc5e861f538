import type { Message } from '../../mqtt/connection.ts';
import type { AnnouncedMessage } from '../../mqtt/packet-reader.ts';

export interface Outbound {
  readonly topic: string;
  readonly text: string;
  readonly retain?: boolean;
  /** Sent with MQTT 5 only. */
  readonly request?: { readonly replyTopic: string; readonly correlation: string; readonly expiryMs: number };
}

export interface ConnectionEvents {
  readonly onMessage: (message: Message) => void;
  /** Decides whether the content of this large message is wanted. */
  readonly admits: (message: AnnouncedMessage) => boolean;
  /** Called when bytes of a large message arrived. */
  readonly onProgress: () => void;
  /** Called before a pause of this length, in which nothing is read because too much arrived at once. */
  readonly onNap: (ms: number) => void;
}
