/** Bytes that a board sends, the first of them at `atMs` at the earliest. */
export interface Said {
  readonly bytes: Uint8Array;
  readonly atMs: number;
}

/** Programs that ran each time the chip left its bootloader. */
export type Ran = 'old' | 'new' | 'parked' | 'blank' | 'broken';

/** A board without a wire: bytes in, bytes out, time as a parameter. */
export interface BoardModel {
  /** A byte from the host. */
  receive(byte: number, atMs: number): readonly Said[];
  /** Output that the board sends unprompted, at the latest at this time without input. */
  poll?(untilMs: number): readonly Said[];
  /** Both modem lines, where DTR alone does not say what happens. */
  modem?(lines: { readonly dtr: boolean; readonly rts: boolean }, atMs: number): readonly Said[];
  /** The host's end of the line has another rate now. */
  settings?(baud: number): void;
  /** RESET was pulled; by the edge of DTR that does it on boards of this kind. */
  reset(atMs: number): void;
  /** Power comes back after it was lost, or is cut and given back. */
  power(atMs: number): void;
  /** Loses power at the nth block written from now on, before (`torn`) or after it is in memory. */
  dieAtWrite(writes: number, torn: boolean): void;
  readonly resetsWhenDtr: 'asserted' | 'released';
  readonly dead: boolean;
  /** The application part of the flash memory. */
  readonly memory: Uint8Array;
  readonly ran: readonly Ran[];
  /** Things that a host must never do. */
  readonly violations: readonly string[];
  /** Bytes that came while the chip was too busy to take them: never without a fault on the wire. */
  readonly overruns: number;
}

/** Which program would run now. */
export function programIn(
  memory: Uint8Array,
  parked: Uint8Array | 'erased',
  programs: Readonly<Record<'old' | 'new', Uint8Array>>,
): Ran {
  if (Buffer.compare(memory, programs.new) === 0) return 'new';
  if (Buffer.compare(memory, programs.old) === 0) return 'old';
  const start = memory.subarray(0, 16);
  if (start.every((byte) => byte === 0xff)) return 'blank';
  if (parked !== 'erased' && Buffer.compare(start.subarray(0, parked.byteLength), parked) === 0) return 'parked';
  return 'broken';
}
