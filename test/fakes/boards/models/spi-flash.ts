const sectorBytes = 4096;
const blockBytes = 65_536;
const pageBytes = 256;
/** Typical times of a W25Q32: sector and block erase, page program. */
const [sectorEraseMs, blockEraseMs, pageWriteMs] = [45, 150, 0.4];

/** A chip of SPI flash memory: erased to ones in sectors or blocks, programmed to zeros in pages; and its power. */
export class SpiFlash {
  readonly bytes: Uint8Array;
  readonly violations: string[] = [];
  dead = false;
  /** Erasures and programmings. */
  operations = 0;
  #operationsLeft = Number.POSITIVE_INFINITY;
  #torn = false;

  constructor(sizeBytes: number) {
    this.bytes = new Uint8Array(sizeBytes).fill(0xff);
  }

  /** As a JEDEC identification: maker, kind, power of two of the size. */
  get jedecId(): number {
    return 0xef | (0x40 << 8) | (Math.log2(this.bytes.byteLength) << 16);
  }

  dieAtOperation(operations: number, torn: boolean): void {
    this.#operationsLeft = operations;
    this.#torn = torn;
  }

  power(): void {
    this.dead = false;
    this.#operationsLeft = Number.POSITIVE_INFINITY;
  }

  /** Whole sectors; how long it takes. */
  erase(start: number, end: number): number {
    if (!this.#survives()) return 0;
    let ms = 0;
    const last = Math.ceil(end / sectorBytes) * sectorBytes;
    for (let at = Math.floor(start / sectorBytes) * sectorBytes; at < last;) {
      const whole = at % blockBytes === 0 && last - at >= blockBytes;
      const to = at + (whole ? blockBytes : sectorBytes);
      this.bytes.fill(0xff, at, to);
      ms += whole ? blockEraseMs : sectorEraseMs;
      at = to;
    }
    return ms;
  }

  /** Returns the duration. */
  program(start: number, data: Uint8Array): number {
    if (data.byteLength === 0 || !this.#survives()) return 0;
    for (const [index, byte] of data.entries()) {
      const there = this.bytes[start + index] ?? 0xff;
      if ((there & byte) !== byte) this.violations.push(`programs ${start + index}, which is not erased`);
      this.bytes[start + index] = there & byte;
    }
    return Math.ceil(data.byteLength / pageBytes) * pageWriteMs;
  }

  #survives(): boolean {
    if (this.dead) return false;
    this.operations += 1;
    this.#operationsLeft -= 1;
    this.dead = this.#operationsLeft < 0;
    return !this.dead || !this.#torn;
  }
}
