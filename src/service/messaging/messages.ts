import type { AnnouncedMessage, Content } from '../../mqtt/publish-splitter.ts';

export interface Inbound {
  readonly topic: string;
  readonly content: Content;
  /** The broker kept it for whoever subscribes: it may be of any age. */
  readonly isRetained: boolean;
  /** Correlation data as text; undefined: none, or MQTT 3.1.1. */
  readonly correlation: string | undefined;
}

export interface Outbound {
  readonly topic: string;
  readonly text: string;
  readonly retain?: boolean;
  /** Said with MQTT 5 only. */
  readonly request?: { readonly replyTopic: string; readonly correlation: string; readonly expiryMs: number };
}

export interface ConnectionEvents {
  readonly onMessage: (message: Inbound) => void;
  /** Is the content of this large message wanted? */
  readonly admits: (message: AnnouncedMessage) => boolean;
  /** Bytes of a large message came. */
  readonly onProgress: () => void;
  /** Nothing is read for so long: too much came at once. */
  readonly onNap: (ms: number) => void;
}
