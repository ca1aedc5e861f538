import { releaseMemory } from '../../../system/files/release-memory.ts';

/** The size of one read, and the bound of buffered data. */
export const BUFFER_BYTES = 256 * 1024;

/** A smaller piece gets no room if nothing else waits: it is most likely the whole reply. */
const SMALL_BYTES = 16 * 1024;

interface Part {
  readonly bytes: Buffer;
  filledBytes: number;
}

/**
 * Gathers copies of received pieces, of 16 KiB each from TLS, into two or three reused buffers of 256 KiB, so that
 * consumers read seldom. With receiving-socket.ts it saves 17 % of the time of an installation, and alone 13 % over TLS.
 * To remove it, queue the pieces themselves in exchange.ts.
 */
export class ReceiveBuffers {
  readonly #parts: Part[] = [];
  readonly #rooms: Buffer[] = [];
  /** Pieces that were copied. Their memory is given back later, since undici still looks at the last one. */
  readonly #copied: Uint8Array[] = [];
  #taken: Buffer | undefined;
  #waitingBytes = 0;

  /** True if no more should be received for now. */
  get isFull(): boolean {
    return this.#waitingBytes >= BUFFER_BYTES;
  }

  put(piece: Uint8Array): void {
    this.#waitingBytes += piece.byteLength;
    this.#copied.push(piece);
    for (let rest = piece; rest.byteLength > 0;) {
      const part = this.#partFor(rest);
      const fitting = rest.subarray(0, part.bytes.byteLength - part.filledBytes);
      part.bytes.set(fitting, part.filledBytes);
      part.filledBytes += fitting.byteLength;
      rest = rest.subarray(fitting.byteLength);
    }
  }

  /** Returns the buffered data, at most one buffer of it, valid until the next call, or undefined if there is none. */
  take(): Buffer | undefined {
    for (const piece of this.#copied.splice(0)) releaseMemory(piece);
    if (this.#taken?.byteLength === BUFFER_BYTES) this.#rooms.push(this.#taken);
    const part = this.#parts.shift();
    this.#taken = part?.bytes;
    if (part === undefined) return undefined;
    this.#waitingBytes -= part.filledBytes;
    return part.bytes.subarray(0, part.filledBytes);
  }

  /** The last part, or a new one if that is full. */
  #partFor(piece: Uint8Array): Part {
    const last = this.#parts.at(-1);
    if (last !== undefined && last.filledBytes < last.bytes.byteLength) return last;
    const isSmall = last === undefined && piece.byteLength < SMALL_BYTES;
    const bytes = isSmall
      ? Buffer.allocUnsafe(piece.byteLength)
      : (this.#rooms.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES));
    const part = { bytes, filledBytes: 0 };
    this.#parts.push(part);
    return part;
  }
}
