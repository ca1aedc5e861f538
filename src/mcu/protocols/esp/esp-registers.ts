import { McuError } from '../../errors.ts';
import type { Conversation } from '../../protocol.ts';
import type { SpiRegisters } from './esp-chips.ts';
import { ask, invalidMessage, words } from './esp-frames.ts';
import type { EspCommand, EspResponse } from './esp-frames.ts';

/** Source: Espressif, "Serial Protocol": "Commands". */
export const espCommand = {
  flashBegin: 0x02,
  flashData: 0x03,
  flashEnd: 0x04,
  sync: 0x08,
  writeRegister: 0x09,
  readRegister: 0x0a,
  spiSetParameters: 0x0b,
  spiAttach: 0x0d,
  readFlash: 0x0e,
  changeBaudRate: 0x0f,
  deflateBegin: 0x10,
  deflateData: 0x11,
  flashMd5: 0x13,
  securityInfo: 0x14,
} as const;

/** "Status Bytes": the error of a response; they follow the data, or come alone. */
export function errorIn({ data }: EspResponse, dataBytes: number): number | undefined {
  const at = data.byteLength >= dataBytes + 2 ? dataBytes : 0;
  return data[at] === 0 ? undefined : (data[at + 1] ?? invalidMessage);
}

/** Sends a command that must succeed, and returns its response. */
export function* demand(asked: EspCommand, dataBytes = 0): Conversation<EspResponse> {
  const response = yield* ask(asked);
  const error = errorIn(response, dataBytes);
  if (error !== undefined) throw refusal(asked.command, error);
  if (response.data.byteLength < dataBytes)
    throw new McuError('board-bad-response', 'the answer of the ROM loader is truncated');
  return response;
}

export function refusal(command: number, error: number): McuError {
  const name = Object.entries(espCommand).find(([, code]) => code === command)?.[0] ?? `${command}`;
  return new McuError('board-refused', `the ROM loader refuses ${name} with error ${error}`);
}

/** "32-Bit Read/Write". */
export function* readRegister(address: number): Conversation<number> {
  return (yield* demand({ command: espCommand.readRegister, data: words(address) })).value;
}

function* writeRegister(address: number, value: number): Conversation<void> {
  const everyBit = 0xffff_ffff;
  yield* demand({ command: espCommand.writeRegister, data: words(address, value, everyBit, 0) });
}

/** Bits of USR, USR2 and CMD. Source: Technical Reference Manuals, "SPI Controller". */
const sendsCommand = 0x8000_0000;
const takesAnswer = 0x1000_0000;
const commandOfEightBits = 0x7000_0000;
const run = 0x0004_0000;
/** JEDEC JESD216: Read Identification. */
const readIdentification = 0x9f;
const identificationBits = 24;
const maxPolls = 10;

/** Reads maker, kind and size of the SPI flash by driving its controller, as Espressif's `flash-id` does. */
export function* jedecId(spi: SpiRegisters): Conversation<number> {
  const at = (offset: number): number => spi.base + offset;
  const [user, user2] = [yield* readRegister(at(spi.user)), yield* readRegister(at(spi.user2))];
  if (spi.inputLength === undefined) yield* writeRegister(at(spi.user1), (identificationBits - 1) << 8);
  else yield* writeRegister(at(spi.inputLength), identificationBits - 1);
  yield* writeRegister(at(spi.user), sendsCommand | takesAnswer);
  yield* writeRegister(at(spi.user2), commandOfEightBits | readIdentification);
  yield* writeRegister(at(spi.data), 0);
  yield* writeRegister(spi.base, run);
  for (let polls = 1; ((yield* readRegister(spi.base)) & run) !== 0; polls += 1) {
    if (polls >= maxPolls) throw new McuError('board-bad-response', 'the SPI controller does not finish');
  }
  const id = yield* readRegister(at(spi.data));
  yield* writeRegister(at(spi.user), user);
  yield* writeRegister(at(spi.user2), user2);
  return id;
}
