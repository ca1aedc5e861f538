/**
 * A Modbus unit after the Modbus Application Protocol Specification V1.1b3, section 6.1 to 6.4 (functions 1 to 4) and 7
 * (exceptions). model.contract.test.ts compares it with a server of libmodbus.
 */
export interface UnitModel {
  /** The value of a register or a bit, or undefined if there is none at the address. */
  readonly holding?: (address: number) => number | undefined;
  readonly input?: (address: number) => number | undefined;
  readonly coil?: (address: number) => number | undefined;
  readonly discrete?: (address: number) => number | undefined;
}

const illegalFunction = 1;
const illegalAddress = 2;
const illegalValue = 3;

/** Returns the PDU that answers a request. */
export function answerPdu(request: Uint8Array, unit: UnitModel): Uint8Array {
  const [code = 0] = request;
  const tables = [undefined, unit.coil, unit.discrete, unit.holding, unit.input];
  if (code < 1 || code > 4) return Uint8Array.of(code | 0x80, illegalFunction);
  const [address, count] = [Buffer.from(request).readUInt16BE(1), Buffer.from(request).readUInt16BE(3)];
  const isBits = code <= 2;
  if (request.byteLength !== 5 || count < 1 || count > (isBits ? 2_000 : 125)) {
    return Uint8Array.of(code | 0x80, illegalValue);
  }
  const values = Array.from({ length: count }, (_, index) => tables[code]?.(address + index));
  if (address + count > 0x10000 || values.includes(undefined)) return Uint8Array.of(code | 0x80, illegalAddress);
  const data = isBits ? packed(values) : values.flatMap((value = 0) => [value >> 8, value & 0xff]);
  return Uint8Array.of(code, data.length, ...data);
}

/** The first bit is the least significant one of the first byte. */
function packed(bits: readonly (number | undefined)[]): number[] {
  return Array.from({ length: Math.ceil(bits.length / 8) }, (_, byte) =>
    bits.slice(byte * 8, byte * 8 + 8).reduce<number>((sum, bit = 0, place) => sum | (bit << place), 0),
  );
}
