import { HelperError } from '../errors.ts';

/** The frame of a message: JSON, and perhaps bytes of a firmware. */
export interface Frame {
  readonly head: unknown;
  /** The last bytes of their buffer, behind which nothing follows; undefined: none. */
  readonly body: Buffer | undefined;
}

/** The longest head of the helper is what it kept of many attempts. */
export const MAX_HEAD_BYTES = 4 * 1024 * 1024;
/**
 * The longest head of the agent is a list of versions, made of a reply of the service with 1 MiB at most. JSON may
 * become 35 times as large in memory as its text, and who has broken into the agent may choose it.
 */
export const MAX_AGENT_HEAD_BYTES = 1024 * 1024 + 64 * 1024;
export const MAX_BODY_BYTES = 1024 * 1024;
/** Two big-endian numbers: the lengths of head and body. */
const PREFIX_BYTES = 8;

/** Encodes everything before the body. Throws `link-malformed` if it is too long. */
export function encodeHead(head: unknown, bodyBytes = 0): Buffer {
  const text = JSON.stringify(head);
  const headBytes = Buffer.byteLength(text);
  requireBounds(headBytes, bodyBytes);
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + headBytes);
  bytes.writeUInt32BE(headBytes, 0);
  bytes.writeUInt32BE(bodyBytes, 4);
  bytes.write(text, PREFIX_BYTES);
  return bytes;
}

/** Decodes pieces of any length into frames. Holds one frame at most. */
export class FrameDecoder {
  readonly #maxHeadBytes: number;
  #prefix = Buffer.alloc(PREFIX_BYTES);
  #prefixBytes = 0;
  #content: Buffer | undefined;
  #contentBytes = 0;
  #headBytes = 0;

  constructor(maxHeadBytes = MAX_HEAD_BYTES) {
    this.#maxHeadBytes = maxHeadBytes;
  }

  /** The frames that end in this piece. Throws `link-malformed`, after which nothing more can be read. */
  *push(piece: Uint8Array): Generator<Frame, void, undefined> {
    let rest = piece;
    for (;;) {
      rest = this.#content === undefined ? this.#takePrefix(rest) : this.#takeContent(this.#content, rest);
      if (this.#content === undefined || this.#contentBytes < this.#content.byteLength) {
        if (rest.byteLength === 0) return;
        continue;
      }
      yield this.#frame(this.#content);
    }
  }

  /** Whether a frame has begun and not ended. */
  get isWithin(): boolean {
    return this.#prefixBytes > 0;
  }

  #takePrefix(piece: Uint8Array): Uint8Array {
    const taken = piece.subarray(0, PREFIX_BYTES - this.#prefixBytes);
    this.#prefix.set(taken, this.#prefixBytes);
    this.#prefixBytes += taken.byteLength;
    if (this.#prefixBytes === PREFIX_BYTES) {
      this.#headBytes = this.#prefix.readUInt32BE(0);
      const bodyBytes = this.#prefix.readUInt32BE(4);
      requireBounds(this.#headBytes, bodyBytes, this.#maxHeadBytes);
      this.#content = Buffer.allocUnsafeSlow(this.#headBytes + bodyBytes);
      this.#contentBytes = 0;
    }
    return piece.subarray(taken.byteLength);
  }

  #takeContent(content: Buffer, piece: Uint8Array): Uint8Array {
    const taken = piece.subarray(0, content.byteLength - this.#contentBytes);
    content.set(taken, this.#contentBytes);
    this.#contentBytes += taken.byteLength;
    return piece.subarray(taken.byteLength);
  }

  #frame(content: Buffer): Frame {
    const headBytes = this.#headBytes;
    this.#content = undefined;
    this.#prefixBytes = 0;
    const body = content.byteLength > headBytes ? alone(content.subarray(headBytes), headBytes) : undefined;
    return { head: parsed(content.toString('utf8', 0, headBytes)), body };
  }
}

/** A short body does not keep a long head in memory. */
function alone(body: Buffer, headBytes: number): Buffer {
  if (headBytes <= body.byteLength) return body;
  const own = Buffer.allocUnsafeSlow(body.byteLength);
  body.copy(own);
  return own;
}

function requireBounds(headBytes: number, bodyBytes: number, maxHeadBytes = MAX_HEAD_BYTES): void {
  if (headBytes === 0 || headBytes > maxHeadBytes || bodyBytes > MAX_BODY_BYTES)
    throw new HelperError('link-malformed', `a message of ${headBytes} and ${bodyBytes} bytes`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error;
    throw new HelperError('link-malformed', 'a message is no JSON');
  }
}
