import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

import { free } from './payload.ts';
import type { Content, Piece, PublishSplitter } from './publish-splitter.ts';

export interface ClientStreamOptions {
  /** Bytes of a large message came. */
  readonly onProgress?: () => void;
  /** So many bytes came; the next are read when the promise has resolved. It never rejects. */
  readonly rest?: (bytes: number) => Promise<void> | undefined;
}

/**
 * What the MQTT client takes for its socket. Large messages are split off on the way in; whoever is told of a message by
 * the client asks here for its content.
 */
export class ClientStream extends Duplex {
  readonly #socket: Socket;
  readonly #splitter: PublishSplitter;
  readonly #options: ClientStreamOptions;
  #input: Generator<Piece, void, undefined> | undefined;
  #waiting: { readonly ticket: string; readonly content: Content } | undefined;
  /** The client wants no more for now. */
  #isFull = false;
  /** More came than may come in a time. */
  #isResting = false;
  /** Something of what was received last. */
  #hasHandedOn = false;

  constructor(socket: Socket, splitter: PublishSplitter, options: ClientStreamOptions = {}) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#splitter = splitter;
    this.#options = options;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.once('end', () => this.push(null));
    socket.once('error', (error) => this.destroy(error));
    socket.once('close', () => this.destroy());
  }

  /** The content of the message with this payload: itself, or what it stands for. */
  redeem(payload: Buffer): Content | undefined {
    const waiting = this.#waiting;
    if (waiting?.ticket !== payload.toString('hex')) return undefined;
    this.#waiting = undefined;
    queueMicrotask(() => this.#pump());
    return waiting.content;
  }

  override _read(): void {
    this.#isFull = false;
    this.#pump();
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _writev(chunks: readonly { readonly chunk: Uint8Array }[], done: (error?: Error | null) => void): void {
    this.#socket.write(Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#input = undefined;
    this.#waiting = undefined;
    this.#socket.destroy();
    done(error);
  }

  #receive(chunk: Buffer): void {
    const wasBusy = this.#splitter.isBusy;
    this.#hasHandedOn = false;
    this.#input = this.#splitter.push(chunk);
    const rested = this.#options.rest?.(chunk.byteLength);
    if (rested !== undefined) void this.#restUntil(rested);
    this.#pump();
    const isBusy = this.#splitter.isBusy;
    if (wasBusy && isBusy && !this.#hasHandedOn) free(chunk); // all of it was copied
    if (wasBusy || isBusy) this.#options.onProgress?.();
  }

  async #restUntil(rested: Promise<void>): Promise<void> {
    this.#isResting = true;
    await rested;
    this.#isResting = false;
    this.#pump();
  }

  /** Hands on what was received, as far as the client takes it; the socket waits meanwhile. */
  #pump(): void {
    try {
      while (this.#input !== undefined && !this.#isFull && this.#waiting === undefined) {
        const next = this.#input.next();
        if (next.done === true) this.#input = undefined;
        else this.#handOn(next.value);
      }
    } catch (error) {
      this.destroy(error instanceof Error ? error : undefined);
      return;
    }
    if (this.#input === undefined && !this.#isResting) this.#socket.resume();
    else this.#socket.pause();
  }

  #handOn(piece: Piece): void {
    this.#hasHandedOn = true;
    if (piece.kind === 'ticket') this.#waiting = piece;
    if (!this.push(piece.bytes)) this.#isFull = true;
  }
}
