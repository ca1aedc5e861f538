import { FirmwareFormatError } from './errors.ts';

/** No more than this is ever held in memory at the asker's wish. */
const READ_LIMIT_BYTES = 4 * 1024 * 1024;

/**
 * Bytes that arrive in chunks of any size, read in portions that the asker chooses. One asker at a time. The source's
 * chunk is valid until its next one is asked for, and so is what `stream` and `rest` yield; `peek` and `read` copy.
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

  /** `where` names the stream in errors. `totalBytes`: so many there are, if that is known already. */
  constructor(bytes: AsyncIterable<Uint8Array>, where: string, totalBytes?: number) {
    this.#source = bytes[Symbol.asyncIterator]();
    this.#where = where;
    this.#totalBytes = totalBytes;
  }

  /** Throws `firmware-truncated` where it is known already that so many bytes will not come. */
  requireLeft(sizeBytes: number): void {
    const missingBytes = this.#offset + sizeBytes - (this.#totalBytes ?? Number.POSITIVE_INFINITY);
    if (missingBytes > 0) throw this.#truncated(this.#totalBytes ?? 0, missingBytes);
  }

  /** Bytes consumed so far. */
  get offset(): number {
    return this.#offset;
  }

  /** From now on, what is consumed by `read` is also kept, for the asker to bound, until the record is asked for. */
  startRecord(): void {
    this.#record = [];
  }

  endRecord(): Buffer {
    const recorded = Buffer.concat(this.#record ?? []);
    this.#record = undefined;
    return recorded;
  }

  /** Everything that came so far was consumed. */
  get isDrained(): boolean {
    return this.#chunk.length === 0;
  }

  /** The next bytes without consuming them; fewer than asked for only at the end. */
  async peek(sizeBytes: number): Promise<Uint8Array> {
    if (this.#chunk.length < sizeBytes) this.#chunk = await this.#gather(sizeBytes);
    return copyOf(this.#chunk.subarray(0, sizeBytes));
  }

  /** Exactly so many bytes; `firmware-truncated` if there are fewer. */
  async read(sizeBytes: number): Promise<Uint8Array> {
    const bytes = await this.peek(sizeBytes);
    if (bytes.length < sizeBytes) throw this.#truncated(this.#end, sizeBytes - bytes.length);
    this.#take(sizeBytes);
    this.#record?.push(bytes);
    return bytes;
  }

  /** Exactly so many bytes as they come. What is not taken from it stays for the next call. */
  async *stream(sizeBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
    let left = sizeBytes;
    while (left > 0) {
      if (!(await this.#fill())) throw this.#truncated(this.#end, left);
      const slice = this.#take(Math.min(left, this.#chunk.length));
      left -= slice.length;
      yield slice;
    }
  }

  /** Everything to the end. */
  async *rest(): AsyncGenerator<Uint8Array, void, undefined> {
    while (await this.#fill()) yield this.#take(this.#chunk.length);
  }

  async atEnd(): Promise<boolean> {
    return !(await this.#fill());
  }

  /** Closes the source; harmless to repeat. */
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

  /** Makes sure that there is a byte to take; false at the end. */
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
    if (sizeBytes > READ_LIMIT_BYTES) throw new RangeError(`${sizeBytes} bytes at once; stream them`);
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
      `ends too early, ${missingBytes} bytes are missing`,
    );
  }
}

/** Not `slice`, which copies of an Uint8Array, but not of a Buffer. */
function copyOf(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes);
}
