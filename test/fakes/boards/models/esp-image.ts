import type { EspTraits } from './esp-traits.ts';

const longHeadBytes = 24;
/** Images for an ESP8266 have no extended header, and so no chip number. */
const shortHeadBytes = 8;
const segmentHeadBytes = 8;
const magic = 0xe9;
const checksumSeed = 0xef;
const alignment = 16;
/** A signature begins with this, in the sector behind the image. */
const signatureMagic = 0xe7;
const sectorBytes = 4096;

/** An image of one segment, after "Firmware Image Format" of the esptool documentation. */
export function espImage(contents: Uint8Array, chip: number | 'esp8266' = 0, loadedTo = 0x4008_0000): Uint8Array {
  const headBytes = chip === 'esp8266' ? shortHeadBytes : longHeadBytes;
  const end = headBytes + segmentHeadBytes + contents.byteLength;
  const image = Buffer.alloc(Math.ceil((end + 1) / alignment) * alignment);
  image.writeUInt8(magic, 0);
  image.writeUInt8(1, 1);
  if (chip !== 'esp8266') image.writeUInt16LE(chip, 12);
  image.writeUInt32LE(loadedTo, headBytes);
  image.writeUInt32LE(contents.byteLength, headBytes + 4);
  image.set(contents, headBytes + segmentHeadBytes);
  image.writeUInt8(sumOf(contents), image.byteLength - 1);
  return Uint8Array.from(image);
}

/** An application, whose contents begin with the descriptor of ESP-IDF, "App Image Format". */
export function espApplication(contents: Uint8Array, chip = 0): Uint8Array {
  return espImage(Uint8Array.of(0x32, 0x54, 0xcd, 0xab, ...contents), chip);
}

/** True if the ROM starts what the memory begins with. */
export function isWholeEspImage(memory: Uint8Array): boolean {
  return endOfEspImage(memory) !== undefined;
}

/** `bootloader_common_check_chip_validity` of ESP-IDF, and Secure Boot V2 as far as an image without a signature shows. */
export function isStartedBy(memory: Uint8Array, { revision = 0, securesBoot }: EspTraits): boolean {
  const image = Buffer.from(memory);
  const [first, last] = [image.readUInt16LE(15), image.readUInt16LE(17)];
  const isWithin = revision >= first && (last === 0 || last === 0xffff || revision <= last);
  const end = endOfEspImage(memory);
  if (!isWithin || end === undefined) return false;
  return !securesBoot || memory[Math.ceil(end / sectorBytes) * sectorBytes] === signatureMagic;
}

function endOfEspImage(memory: Uint8Array): number | undefined {
  const image = Buffer.from(memory);
  if (image.readUInt8(0) !== magic || image.readUInt8(1) !== 1) return undefined;
  const ends = [longHeadBytes, shortHeadBytes].map((headBytes) => {
    const start = headBytes + segmentHeadBytes;
    const end = start + image.readUInt32LE(headBytes + 4);
    const wholeEnd = Math.ceil((end + 1) / alignment) * alignment;
    if (wholeEnd > image.byteLength) return undefined;
    return image.readUInt8(wholeEnd - 1) === sumOf(image.subarray(start, end)) ? wholeEnd : undefined;
  });
  return ends.find((end) => end !== undefined);
}

function sumOf(bytes: Uint8Array): number {
  return bytes.reduce((sum, byte) => sum ^ byte, checksumSeed);
}
