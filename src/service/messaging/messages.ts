import type { Message } from '../../mqtt/connection.ts';
import type { AnnouncedMessage } from '../../mqtt/packet-reader.ts';

export interface Outbound {
  readonly topic: string;
  readonly text: string;
  readonly retain?: boolean;
  /** Said with MQTT 5 only. */
  readonly request?: { readonly replyTopic: string; readonly correlation: string; readonly expiryMs: number };
}

export interface ConnectionEvents {
  readonly onMessage: (message: Message) => void;
  /** Is the content of this large message wanted? */
  readonly admits: (message: AnnouncedMessage) => boolean;
  /** Bytes of a large message came. */
  readonly onProgress: () => void;
  /** Nothing is read for so long: too much came at once. */
  readonly onNap: (ms: number) => void;
}
