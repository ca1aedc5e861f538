import { Base64Decoder } from './base64.ts';
import { detectEncoding } from './encoding.ts';
import type { EncodingDecoder, EncodingSetting, EncodingState, Locate, TextEncoding } from './encoding.ts';
import { HexDecoder } from './hex.ts';
import { JsonStringDecoder, countWhiteSpace } from './json-string.ts';
import { textError } from './text-errors.ts';
import { SLICE_BYTES, openTextKernel } from './text-kernel.ts';

/** A place in a text where another decoder can continue. */
export interface TextPosition extends EncodingState {
  /** The offset of the next byte of the text. */
  readonly offset: number;
}

/**
 * Decodes the text that the service sends, one JSON string with an encoded firmware, into the firmware's bytes. All
 * errors are FirmwareFormatErrors with the offset in the text and the codes of text-errors.ts.
 */
export class FirmwareTextDecoder {
  readonly #kernel = openTextKernel();
  readonly #locate: Locate = (index) => this.#json.locate(index);
  readonly #json: JsonStringDecoder;
  #encoding: EncodingDecoder | undefined;
  /** The first slice, buffered until it is full, since the encoding is detected by it. */
  #beginning: Buffer | undefined;
  #beginningBytes = 0;
  #producedBytes = 0;
  readonly #resumed: boolean;

  constructor(start: EncodingSetting | TextPosition) {
    const position = typeof start === 'string' ? undefined : start;
    this.#resumed = position !== undefined;
    this.#json = new JsonStringDecoder(this.#kernel, position?.offset);
    if (position !== undefined) this.#encoding = this.#decoder(position.encoding, position.carry);
    else if (start !== 'auto' && typeof start === 'string') this.#encoding = this.#decoder(start);
    else this.#beginning = Buffer.allocUnsafe(SLICE_BYTES);
  }

  /** The number of bytes of the firmware so far. */
  get producedBytes(): number {
    return this.#producedBytes;
  }

  /** The place behind the last slice; undefined while the encoding is uncertain, and at the very end. */
  get position(): TextPosition | undefined {
    const offset = this.#json.resumeOffset;
    const state = this.#encoding?.state;
    return offset === undefined || state === undefined ? undefined : { offset, ...state };
  }

  /**
   * Yields the bytes of the firmware image in slices of at most SLICE_BYTES; each is valid until the next one is
   * requested.
   */
  *push(chunk: Uint8Array): Generator<Uint8Array, void, undefined> {
    const kept = yield* this.#keepBeginning(chunk);
    if (this.#beginning === undefined) yield* this.#decode(chunk.subarray(kept));
  }

  /** Ends the text: yields what is left. Throws if the text is not complete. */
  *finish(): Generator<Uint8Array, void, undefined> {
    yield* this.#decodeBeginning();
    const endOffset = this.#json.finish();
    const tail = this.#encoding?.finish(endOffset) ?? new Uint8Array();
    this.#producedBytes += tail.length;
    if (this.#producedBytes === 0 && !this.#resumed) throw textError('text-empty', endOffset, 'the string is empty');
    if (tail.length > 0) yield tail;
  }

  /** Returns how many bytes of the chunk were handled. */
  *#keepBeginning(chunk: Uint8Array): Generator<Uint8Array, number, undefined> {
    if (this.#beginning === undefined) return 0;
    const blank = this.#beginningBytes === 0 ? countWhiteSpace(chunk) : 0;
    yield* this.#decode(chunk.subarray(0, blank));
    const kept = chunk.subarray(blank, blank + SLICE_BYTES - this.#beginningBytes);
    this.#beginning.set(kept, this.#beginningBytes);
    this.#beginningBytes += kept.length;
    if (this.#beginningBytes === SLICE_BYTES) yield* this.#decodeBeginning();
    return blank + kept.length;
  }

  *#decodeBeginning(): Generator<Uint8Array, void, undefined> {
    const beginning = this.#beginning?.subarray(0, this.#beginningBytes) ?? new Uint8Array();
    this.#beginning = undefined;
    yield* this.#decode(beginning);
  }

  *#decode(chunk: Uint8Array): Generator<Uint8Array, void, undefined> {
    for (const text of this.#json.push(chunk)) {
      this.#encoding ??= this.#detect(text);
      const bytes = this.#encoding.decode(text);
      this.#producedBytes += bytes.length;
      if (bytes.length > 0) yield bytes;
    }
  }

  #detect(beginning: Buffer): EncodingDecoder {
    const isWhole = this.#json.resumeOffset === undefined;
    return this.#decoder(detectEncoding(beginning, isWhole) === 'hex' ? 'hex' : undefined);
  }

  #decoder(encoding: TextEncoding | undefined, carry?: string): EncodingDecoder {
    if (encoding === 'hex') return new HexDecoder(this.#locate, carry);
    return new Base64Decoder(this.#locate, encoding, carry);
  }
}
