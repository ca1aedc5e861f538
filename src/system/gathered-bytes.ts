/** Bytes that arrive in pieces, copied into one buffer: a thousand pieces of one byte take no more memory than one piece. */
export class GatheredBytes {
  #buffer: Buffer = Buffer.alloc(0);
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** The pieces that were added so far. Later ones do not change them. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#sizeBytes);
  }

  add(piece: Uint8Array): void {
    const sizeBytes = this.#sizeBytes + piece.byteLength;
    if (sizeBytes > this.#buffer.byteLength) {
      const larger = Buffer.allocUnsafeSlow(2 * sizeBytes);
      larger.set(this.bytes);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.#sizeBytes);
    this.#sizeBytes = sizeBytes;
  }
}
