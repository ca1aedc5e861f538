import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

import type { CollectedFiles, PackedFile } from './collect.ts';

const BLOCK_BYTES = 512;

/** Packs small files into a directory of a `.tar.gz` that only its owner can read. */
export async function writeArchive<T>(
  directory: string,
  files: readonly Pick<PackedFile, 'file' | 'bytes'>[],
  at: Date,
  take: (chunks: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<T> {
  const entries = files.flatMap(({ file, bytes }) => [
    tarHeader(directory, file, bytes.byteLength, at),
    bytes,
    Buffer.alloc(-bytes.byteLength & (BLOCK_BYTES - 1)),
  ]);
  return pipeline(Readable.from([...entries, Buffer.alloc(2 * BLOCK_BYTES)]), createGzip(), take);
}

/** POSIX.1-1988 ustar. Shortens a directory name of more than 155 bytes. */
function tarHeader(directory: string, file: string, sizeBytes: number, at: Date): Buffer {
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`;
  const header = Buffer.alloc(BLOCK_BYTES);
  header.write(file, 0, 100);
  header.write(`${octal(0o600, 7)}${octal(0, 7)}${octal(0, 7)}`, 100);
  header.write(`${octal(sizeBytes, 11)}${octal(Math.floor(at.getTime() / 1_000), 11)}        0`, 124);
  header.write('ustar\x0000', 257);
  header.write(directory, 345, 155);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 6)} `, 148);
  return header;
}

export interface ReadmeFacts extends CollectedFiles {
  readonly version: string;
  readonly at: string;
}

/** The text of the first file of a support bundle. Pure. */
export function readme({ version, at, files, missing, hidden }: ReadmeFacts): string {
  const cut = files.filter(({ isCut }) => isCut);
  return [
    `Support bundle of Thing Agent ${version}, created at ${at} by agent support-bundle`,
    '',
    'Contents:',
    ...files.map(({ file, meaning }) => `  ${file.padEnd(22)}${meaning}`),
    ...(missing.length === 0 ? [] : ['', 'Missing:']),
    ...missing.map(({ part, why, code }) => `  ${part.padEnd(22)}${why} (${code})`),
    ...(cut.length === 0 ? [] : ['', 'Truncated:']),
    ...cut.map(({ file }) => `  ${file}`),
    '',
    `The keys, passwords and other secrets of this gateway were replaced by ******** in ${hidden} places.`,
    'Arguments of configured programs were removed.',
    'The bundle contains the serial number, addresses, names of files and devices, and versions.',
    '',
  ].join('\n');
}
