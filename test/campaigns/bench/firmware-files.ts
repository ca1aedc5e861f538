import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';

import { fileContent, randomContent } from '../../fakes/service/firmware-content.ts';
import { FirmwareText } from '../../fakes/service/firmware-text.ts';
import { writeArtifact } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import type { KeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';

const run = promisify(execFile);
const pieceBytes = 1024 * 1024;

export interface ImageFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** Bytes that look random: they do not compress, and no block is like another. */
export async function writeRandomImage(path: string, sizeBytes: number): Promise<ImageFile> {
  const content = randomContent(sizeBytes, 3);
  await pipeline(Readable.from(pieces()), createWriteStream(path));
  return imageFile(path);

  function* pieces(): Generator<Buffer> {
    for (let offset = 0; offset < sizeBytes; offset += pieceBytes) yield content.read(offset, pieceBytes);
  }
}

/** `sizeBytes`: only the beginning, as of a device. */
export async function imageFile(path: string, sizeBytes?: number): Promise<ImageFile> {
  const hash = createHash('sha256');
  const whole = sizeBytes ?? (await stat(path)).size;
  for await (const chunk of createReadStream(path, { highWaterMark: pieceBytes, end: whole - 1 })) {
    hash.update(chunk as Buffer);
  }
  return { path, sizeBytes: whole, sha256: hash.digest('hex') };
}

/** Writes encoded firmware, a JSON string, once, so that serving it costs only reading. */
export async function writeText(path: string, firmwarePath: string): Promise<string> {
  const content = fileContent(firmwarePath);
  const style = { encoding: 'base64', padding: true, lineLength: 0, escapes: 'none', surroundings: '' } as const;
  await pipeline(Readable.from(new FirmwareText(content, style).read()), createWriteStream(path));
  content.close?.();
  return path;
}

/** `name`: the version under which the service offers it. */
export async function writeSignedArtifact(
  { path, name }: { readonly path: string; readonly name: string },
  image: ImageFile,
  keys: KeyPair,
): Promise<void> {
  const { sizeBytes, sha256 } = image;
  const chunks = (): AsyncIterable<Uint8Array> => createReadStream(image.path, { highWaterMark: pieceBytes });
  await writeArtifact(path, {
    name,
    devices: ['demo-gateway'],
    compression: 'none',
    files: [{ name: 'rootfs.img', content: { sizeBytes, sha256, chunks } }],
    key: keys.privateKey,
  });
}

export interface SwuOptions {
  readonly folder: string;
  readonly image: ImageFile;
  readonly device: string;
}

export interface SwuFile {
  readonly path: string;
  readonly certificate: string;
}

/** An update for swupdate that does what the agent does: signed (CMS), SHA-256, straight into the device. */
export async function writeSwu({ folder, image, device }: SwuOptions): Promise<SwuFile> {
  const [certificate, key] = [join(folder, 'swu-cert.pem'), join(folder, 'swu-key.pem')];
  const identity = ['-subj', '/CN=bench', '-addext', 'extendedKeyUsage=emailProtection'];
  const making = ['-newkey', 'rsa:2048', '-nodes', '-days', '3650', '-keyout', key, '-out', certificate];
  await run('openssl', ['req', '-x509', ...making, ...identity]);
  const description = join(folder, 'sw-description');
  await writeFile(
    description,
    `software = { version = "1"; hardware-compatibility: ["1.0"]; images: ({ filename = "image"; type = "raw";
      device = "${device}"; sha256 = "${image.sha256}"; installed-directly = true; }); }\n`,
  );
  const signing = ['-in', description, '-out', `${description}.sig`, '-signer', certificate, '-inkey', key];
  await run('openssl', ['cms', '-sign', ...signing, '-outform', 'DER', '-nosmimecap', '-binary']);
  const path = join(folder, 'image.swu');
  const members = { 'sw-description': description, 'sw-description.sig': `${description}.sig`, image: image.path };
  await pipeline(Readable.from(cpio(members)), createWriteStream(path));
  return { path, certificate };
}

/** The "crc" form of cpio(5): thirteen hexadecimal fields, the last one the sum of all bytes. */
async function* cpio(members: Readonly<Record<string, string>>): AsyncGenerator<Buffer> {
  for (const [index, [name, path]] of Object.entries(members).entries()) {
    const { size } = await stat(path);
    yield cpioHeader(name, index + 1, size, await sumOfBytes(path));
    yield* createReadStream(path, { highWaterMark: pieceBytes }) as AsyncIterable<Buffer>;
    yield Buffer.alloc((4 - (size % 4)) % 4);
  }
  yield cpioHeader('TRAILER!!!', 0, 0, 0);
}

function cpioHeader(name: string, inode: number, sizeBytes: number, sum: number): Buffer {
  const regularFile = 0o100644;
  const fields = [inode, regularFile, 0, 0, 1, 0, sizeBytes, 0, 0, 0, 0, name.length + 1, sum];
  const text = `070702${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}${name}\0`;
  return Buffer.from(text.padEnd(Math.ceil(text.length / 4) * 4, '\0'), 'latin1');
}

async function sumOfBytes(path: string): Promise<number> {
  await using file = await open(path);
  const piece = Buffer.alloc(pieceBytes);
  let sum = 0;
  for (;;) {
    const { bytesRead } = await file.read(piece);
    if (bytesRead === 0) return sum;
    for (let index = 0; index < bytesRead; index += 1) sum = (sum + (piece[index] ?? 0)) >>> 0;
  }
}
