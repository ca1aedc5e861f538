import { FirmwareFormatError } from './errors.ts';

/** No more than this is held in memory for one call. */
const READ_LIMIT_BYTES = 4 * 1024 * 1024;

/**
 * Reads bytes that arrive in chunks of any size, in portions that the caller chooses. Only one call at a time. A chunk
 * of the source is valid until the next one is requested, and so are the chunks of `stream` and `rest`; `peek` and
 * `read` copy.
 */
export class ByteReader implements AsyncDisposable {
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #where: string;
  #chunk: Uint8Array = new Uint8Array();
  #ended = false;
  #closed = false;
  #offset = 0;
  #record: Uint8Array[] | undefined;

  readonly #totalBytes: number | undefined;

  /** `where` names the stream in errors. `totalBytes` is the length of the stream if it is known. */
  constructor(bytes: AsyncIterable<Uint8Array>, where: string, totalBytes?: number) {
    this.#source = bytes[Symbol.asyncIterator]();
    this.#where = where;
    this.#totalBytes = totalBytes;
  }

  /** Throws `firmware-truncated` if it is known that fewer bytes are left. */
  requireLeft(sizeBytes: number): void {
    const missingBytes = this.#offset + sizeBytes - (this.#totalBytes ?? Number.POSITIVE_INFINITY);
    if (missingBytes > 0) throw this.#truncated(this.#totalBytes ?? 0, missingBytes);
  }

  /** The number of bytes consumed. */
  get offset(): number {
    return this.#offset;
  }

  /** From now on `read` also records what it returns, until `endRecord`. The caller must bound what it reads. */
  startRecord(): void {
    this.#record = [];
  }

  endRecord(): Buffer {
    const recorded = Buffer.concat(this.#record ?? []);
    this.#record = undefined;
    return recorded;
  }

  /** True if everything that has arrived was consumed. */
  get isDrained(): boolean {
    return this.#chunk.length === 0;
  }

  /** The next bytes, without consuming them. Fewer are returned only at the end. */
  async peek(sizeBytes: number): Promise<Uint8Array> {
    if (this.#chunk.length < sizeBytes) this.#chunk = await this.#gather(sizeBytes);
    return copyOf(this.#chunk.subarray(0, sizeBytes));
  }

  /** Returns exactly `sizeBytes` bytes. Throws `firmware-truncated` if there are fewer. */
  async read(sizeBytes: number): Promise<Uint8Array> {
    const bytes = await this.peek(sizeBytes);
    if (bytes.length < sizeBytes) throw this.#truncated(this.#end, sizeBytes - bytes.length);
    this.#take(sizeBytes);
    this.#record?.push(bytes);
    return bytes;
  }

  /** Yields exactly `sizeBytes` bytes, as they arrive. Bytes that the caller does not take remain for the next call. */
  async *stream(sizeBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
    let left = sizeBytes;
    while (left > 0) {
      if (!(await this.#fill())) throw this.#truncated(this.#end, left);
      const slice = this.#take(Math.min(left, this.#chunk.length));
      left -= slice.length;
      yield slice;
    }
  }

  /** Yields all remaining bytes. */
  async *rest(): AsyncGenerator<Uint8Array, void, undefined> {
    while (await this.#fill()) yield this.#take(this.#chunk.length);
  }

  async atEnd(): Promise<boolean> {
    return !(await this.#fill());
  }

  /** Closes the source. May be repeated. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#ended = true;
    this.#chunk = new Uint8Array();
    await this.#source.return?.();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Waits until at least one byte can be consumed; false at the end. */
  async #fill(): Promise<boolean> {
    while (this.#chunk.length === 0) {
      if (this.#ended) return false;
      const next = await this.#source.next();
      if (next.done === true) this.#ended = true;
      else this.#chunk = next.value;
    }
    return true;
  }

  async #gather(sizeBytes: number): Promise<Uint8Array> {
    if (sizeBytes > READ_LIMIT_BYTES) throw new RangeError(`${sizeBytes} bytes in one read; stream them`);
    const parts = [copyOf(this.#chunk)];
    let gathered = this.#chunk.length;
    this.#chunk = new Uint8Array();
    while (gathered < sizeBytes && (await this.#fill())) {
      gathered += this.#chunk.length;
      parts.push(copyOf(this.#chunk));
      this.#chunk = new Uint8Array();
    }
    return Buffer.concat(parts, gathered);
  }

  #take(sizeBytes: number): Uint8Array {
    const slice = this.#chunk.subarray(0, sizeBytes);
    this.#chunk = this.#chunk.subarray(sizeBytes);
    this.#offset += sizeBytes;
    return slice;
  }

  get #end(): number {
    return this.#offset + this.#chunk.length;
  }

  #truncated(end: number, missingBytes: number): FirmwareFormatError {
    return new FirmwareFormatError(
      'firmware-truncated',
      this.#where,
      end,
      `is truncated, ${missingBytes} bytes are missing`,
    );
  }
}

/** Copies bytes. `slice` would not copy if they are a Buffer. */
function copyOf(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes);
}
