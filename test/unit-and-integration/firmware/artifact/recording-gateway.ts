import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';

import type {
  FirmwareHeader,
  PayloadOpening,
  PayloadWriter,
  WrittenPayload,
  WrittenPrefix,
} from '../../../../src/update/ports.ts';
import type { Places } from '../stage-into.ts';

/** Receives payloads in memory, with occasional pauses, and records the order of its calls. */
export class RecordingGateway {
  readonly events: string[] = [];
  readonly opened: PayloadOpening[] = [];
  readonly contents = new Map<string, Buffer>();
  header: FirmwareHeader | undefined;
  unclosed = 0;
  refusal: Error | undefined;
  onOpen: () => void = () => undefined;

  get places(): Required<Pick<Places, 'accept' | 'openPayload'>> {
    return {
      accept: async (header) => {
        this.events.push('accept');
        this.header = header;
        if (this.refusal !== undefined) throw this.refusal;
      },
      openPayload: async (opening) => {
        this.events.push(`open ${opening.payload.fileName}`);
        this.opened.push(opening);
        this.unclosed += 1;
        this.onOpen();
        return new RecordingWriter(this, opening.payload.fileName);
      },
    };
  }
}

class RecordingWriter implements PayloadWriter {
  readonly #gateway: RecordingGateway;
  readonly #fileName: string;
  readonly #chunks: Buffer[] = [];
  #busy = false;

  constructor(gateway: RecordingGateway, fileName: string) {
    this.#gateway = gateway;
    this.#fileName = fileName;
  }

  write(chunk: Uint8Array): Promise<void> | undefined {
    assert(!this.#busy, 'the writer asked for a pause');
    this.#chunks.push(Buffer.from(chunk));
    if (this.#chunks.length % 2 === 0) return undefined;
    return this.#pause();
  }

  async #pause(): Promise<void> {
    this.#busy = true;
    await setImmediate();
    this.#busy = false;
  }

  async checkpoint(): Promise<WrittenPrefix> {
    throw new Error('no checkpoints in artifacts');
  }

  async finish(): Promise<WrittenPayload> {
    this.#gateway.events.push(`finish ${this.#fileName}`);
    const content = Buffer.concat(this.#chunks);
    this.#gateway.contents.set(this.#fileName, content);
    const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`;
    return { sizeBytes: content.length, digest, unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#gateway.unclosed -= 1;
  }
}
