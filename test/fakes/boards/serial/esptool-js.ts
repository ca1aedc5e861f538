/*
 * Espressif's own esptool-js as a program: PORT BAUD rom|stub FILE ADDRESS. It flashes the file, has the chip digest it, and
 * resets the chip. With `stub` it loads its own loader first, as its users do; with `rom` it talks to the chip's.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

import { ESPLoader, Transport } from 'esptool-js';

import { NodeWebSerial } from './web-serial.ts';

const romBaud = 115_200;
const packetBytes = 1024;
const sectorBytes = 4096;
const setParameters = 0x0b;
/** It gives each reset half a second; a busy machine may need more of them. */
const maxResets = 60;
const silent = { clean: () => {}, writeLine: () => {}, write: () => {} };

const [path = '', baud = '', loaderName = '', file = '', address = ''] = process.argv.slice(2);
const port = new NodeWebSerial(path);
const transport = new Transport(port);
const loader = new ESPLoader({ transport, baudrate: Number(baud), romBaudrate: romBaud, terminal: silent });
const start = Number(address);
const image = await readFile(file);

const before = performance.now();
await loader.connect('default_reset', maxResets);
const isOldRom = loader.chip.CHIP_NAME === 'ESP8266' && loaderName === 'rom';
if (loaderName === 'stub') await loader.runStub();
else if (!isOldRom) await attachByRom();
if (Number(baud) !== romBaud) await loader.changeBaud();
if (isOldRom) await writeToOldRom();
else await write(loaderName === 'stub');
await loader.after('custom_reset', false, 'D0|R1|W100|R0');
console.log(`${loader.chip.CHIP_NAME} flashed in ${((performance.now() - before) / 1000).toFixed(2)} s`);
await transport.disconnect();

/** A ROM's command needs a second word and the flash size: esptool-js sends neither. */
async function attachByRom(): Promise<void> {
  loader.FLASH_WRITE_SIZE = packetBytes;
  await loader.checkCommand('attach the flash', loader.ESP_SPI_ATTACH, new Uint8Array(8));
  const id = await loader.readFlashId();
  const parameters = words(0, 2 ** (id >>> 16), 65_536, sectorBytes, 256, 0xffff);
  await loader.checkCommand('set the parameters of the flash', setParameters, parameters);
}

async function write(byStub: boolean): Promise<void> {
  const digest = createHash('md5').update(image).digest('hex');
  await loader.writeFlash({
    fileArray: [{ data: image, address: start }],
    flashMode: 'keep',
    flashFreq: 'keep',
    flashSize: 'keep',
    eraseAll: false,
    compress: true,
    ...(byStub ? { calculateMD5Hash: () => digest } : {}),
  });
  if (byStub) return;
  // esptool-js takes the text that a ROM answers for the digest itself.
  const text = await loader.checkCommand(
    'digest',
    loader.ESP_SPI_FLASH_MD5,
    words(start, image.byteLength, 0, 0),
    0,
    32,
  );
  if (!(text instanceof Uint8Array) || Buffer.from(text).toString('latin1') !== digest)
    throw new Error('another digest');
}

/** esptool-js writes to an ESP8266 by its own loader only: its packets, pair by pair of sectors. */
async function writeToOldRom(): Promise<void> {
  for (let at = 0; at < image.byteLength; at += 2 * sectorBytes) {
    const packets = (2 * sectorBytes) / packetBytes;
    await loader.checkCommand('begin', loader.ESP_FLASH_BEGIN, words(sectorBytes, packets, packetBytes, start + at));
    for (let packet = 0; packet < packets; packet += 1) {
      const from = at + packet * packetBytes;
      await loader.flashBlock(image.subarray(from, from + packetBytes), packet, 3000);
    }
  }
}

function words(...values: readonly number[]): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(values.length * 4));
  for (const [index, value] of values.entries()) bytes.setUint32(index * 4, value, true);
  return new Uint8Array(bytes.buffer);
}
