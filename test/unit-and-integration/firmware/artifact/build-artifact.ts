import { spawn } from 'node:child_process';
import { createHash, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { Duplex, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip, createZstdCompress } from 'node:zlib';

import { fileHeader, tarEnd, tarOf } from './tar-blocks.ts';
import type { TarMemberBytes } from './tar-blocks.ts';

/**
 * Writes Mender Artifacts (format version 3) as mender-artifact does, in constant memory, and also with zstd, which the
 * older ones lack, with several payloads, and wrong in any place that a test chooses.
 */
export interface ArtifactOptions extends PayloadOptions {
  readonly name: string;
  readonly devices: readonly string[];
  /** Default: `none`. */
  readonly compression?: 'none' | 'gzip' | 'zstd' | 'xz' | undefined;
  /** A private key: ECDSA P-256, RSA or Ed25519. Without one the artifact is unsigned. */
  readonly key?: KeyObject | undefined;
  readonly group?: string | undefined;
  /** Further `artifact_depends` of the artifact, in addition to `device_type`. */
  readonly artifactDepends?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Payloads 0001 and on. */
  readonly furtherPayloads?: readonly PayloadOptions[] | undefined;
  readonly edit?: Partial<Edits> | undefined;
}

export interface PayloadOptions {
  readonly files: readonly PayloadFile[];
  /** File name → target, for the payload's meta-data. */
  readonly targets?: Readonly<Record<string, string>> | undefined;
  /** Files that are deltas, for the payload's meta-data. */
  readonly deltas?: Readonly<Record<string, unknown>> | undefined;
  /** Targets that are installed one after the other. */
  readonly order?: readonly string[] | undefined;
  /** Default: `thing-firmware` with targets, else `rootfs-image`. */
  readonly type?: string | null | undefined;
  readonly provides?: Readonly<Record<string, string>> | undefined;
  readonly depends?: Readonly<Record<string, string | readonly string[]>> | undefined;
  readonly clears?: readonly string[] | undefined;
}

export interface PayloadFile {
  readonly name: string;
  readonly content: Uint8Array | LargeContent;
}

/** Content that is never whole in memory. Opened several times. */
export interface LargeContent {
  readonly sizeBytes: number;
  readonly chunks: () => AsyncIterable<Uint8Array>;
  /** SHA-256 in hex, if it is known and need not be computed. */
  readonly sha256?: string | undefined;
}

/** Changes on the way, each before what is computed from it. */
export interface Edits {
  readonly version: (text: string) => string;
  readonly headerInfo: (info: Readonly<Record<string, unknown>>) => unknown;
  /** The members of `header.tar`, and then that archive before it is compressed. */
  readonly header: (members: readonly TarMemberBytes[]) => readonly TarMemberBytes[];
  readonly headerTar: (tar: Buffer) => Buffer;
  readonly manifest: (text: string) => string;
  readonly signature: (text: string) => string;
  /** The members of the whole, but the data. */
  readonly members: (members: readonly TarMemberBytes[]) => readonly TarMemberBytes[];
  /** Changes the content of the data archives, independently of the manifest, and then each compressed archive. */
  readonly data: (files: readonly PayloadFile[]) => readonly PayloadFile[];
  readonly dataTar: (chunks: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
}

const unedited: Edits = {
  version: (text) => text,
  headerInfo: (info) => info,
  header: (members) => members,
  headerTar: (tar) => tar,
  manifest: (text) => text,
  signature: (text) => text,
  members: (members) => members,
  data: (files) => files,
  dataTar: (chunks) => chunks,
};

const extensions = { none: '', gzip: '.gz', zstd: '.zst', xz: '.xz' } as const;
type Compression = keyof typeof extensions;

export async function buildArtifact(options: ArtifactOptions): Promise<Buffer> {
  return gather(artifactChunks(options));
}

export async function writeArtifact(path: string, options: ArtifactOptions): Promise<void> {
  await pipeline(Readable.from(artifactChunks(options)), createWriteStream(path));
}

export async function* artifactChunks(options: ArtifactOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const edit = { ...unedited, ...options.edit };
  const { compression = 'none' } = options;
  const payloads: readonly PayloadOptions[] = [options, ...(options.furtherPayloads ?? [])];

  const envelope = edit.members(await envelopeMembers(options, payloads, edit));
  yield tarOf(envelope).subarray(0, -tarEnd.length);
  for (const [number, { files }] of payloads.entries()) {
    const data = (): AsyncIterable<Uint8Array> => edit.dataTar(compressed(tarChunks(edit.data(files)), compression));
    const sizeBytes = await countBytes(data());
    yield fileHeader(`data/${digits(number)}.tar${extensions[compression]}`, sizeBytes);
    yield* data();
    yield paddingAfter(sizeBytes);
  }
  yield tarEnd;
}

async function envelopeMembers(
  options: ArtifactOptions,
  payloads: readonly PayloadOptions[],
  edit: Edits,
): Promise<readonly TarMemberBytes[]> {
  const { compression = 'none', key } = options;
  const headerName = `header.tar${extensions[compression]}`;
  const version = Buffer.from(edit.version('{"format":"mender","version":3}'));
  const headerTar = edit.headerTar(tarOf(edit.header(headerMembers(options, payloads, edit))));
  const header = await gather(compressed(once(headerTar), compression));

  const lines: string[] = [];
  for (const [number, { files }] of payloads.entries()) {
    for (const { name, content } of files) lines.push(`${await sha256Of(content)}  data/${digits(number)}/${name}\n`);
  }
  lines.push(`${await sha256Of(header)}  ${headerName}\n`, `${await sha256Of(version)}  version\n`);
  const manifest = Buffer.from(edit.manifest(lines.join('')));

  const members = [
    { name: 'version', content: version },
    { name: 'manifest', content: manifest },
  ];
  if (key !== undefined) {
    const signature = edit.signature(signatureOf(manifest, key).toString('base64'));
    members.push({ name: 'manifest.sig', content: Buffer.from(signature) });
  }
  return [...members, { name: headerName, content: header }];
}

/** As mender-artifact signs: ECDSA as r and s side by side, RSA with PKCS #1 v1.5; Ed25519 is ours. */
export function signatureOf(manifest: Uint8Array, key: KeyObject): Buffer {
  if (key.asymmetricKeyType === 'ed25519') return sign(undefined, manifest, key);
  return sign('sha256', manifest, { key, dsaEncoding: 'ieee-p1363' });
}

function headerMembers(
  options: ArtifactOptions,
  payloads: readonly PayloadOptions[],
  edit: Edits,
): readonly TarMemberBytes[] {
  const info = {
    payloads: payloads.map((payload) => ({ type: typeOf(payload) })),
    artifact_provides: { artifact_name: options.name, artifact_group: options.group },
    artifact_depends: { device_type: options.devices, ...options.artifactDepends },
  };
  const members = [{ name: 'header-info', content: json(edit.headerInfo(info)) }];
  for (const [number, payload] of payloads.entries()) {
    const folder = `headers/${digits(number)}`;
    const typeInfo = {
      type: typeOf(payload),
      artifact_provides: payload.provides,
      artifact_depends: payload.depends,
      clears_artifact_provides: payload.clears,
    };
    const { targets, order, deltas } = payload;
    const isSilent = targets === undefined && deltas === undefined;
    const metaData = isSilent ? Buffer.alloc(0) : json({ targets, order, deltas });
    members.push({ name: `${folder}/type-info`, content: json(typeInfo) });
    members.push({ name: `${folder}/meta-data`, content: metaData });
  }
  return members;
}

function typeOf({ type, targets, deltas }: PayloadOptions): string | null {
  if (type !== undefined) return type;
  return targets === undefined && deltas === undefined ? 'rootfs-image' : 'thing-firmware';
}

async function* tarChunks(files: readonly PayloadFile[]): AsyncGenerator<Uint8Array, void, undefined> {
  for (const { name, content } of files) {
    yield fileHeader(name, sizeOf(content));
    yield* chunksOf(content);
    yield paddingAfter(sizeOf(content));
  }
  yield tarEnd;
}

function compressed(chunks: AsyncIterable<Uint8Array>, compression: Compression): AsyncIterable<Uint8Array> {
  switch (compression) {
    case 'none':
      return chunks;
    case 'gzip':
      return through(chunks, createGzip());
    case 'zstd':
      return through(chunks, createZstdCompress());
    case 'xz': {
      const { stdin, stdout } = spawn('xz', ['--stdout', '--threads=1'], { stdio: ['pipe', 'pipe', 'inherit'] });
      return through(chunks, Duplex.from({ writable: stdin, readable: stdout }));
    }
  }
}

async function* through(
  chunks: AsyncIterable<Uint8Array>,
  transform: Duplex,
): AsyncGenerator<Uint8Array, void, undefined> {
  const delivery = pipeline(Readable.from(chunks), transform);
  for await (const chunk of transform) if (chunk instanceof Uint8Array) yield chunk;
  await delivery;
}

function sizeOf(content: PayloadFile['content']): number {
  return content instanceof Uint8Array ? content.length : content.sizeBytes;
}

function chunksOf(content: PayloadFile['content']): AsyncIterable<Uint8Array> {
  return content instanceof Uint8Array ? once(content) : content.chunks();
}

async function sha256Of(content: PayloadFile['content']): Promise<string> {
  if (!(content instanceof Uint8Array) && content.sha256 !== undefined) return content.sha256;
  const hash = createHash('sha256');
  for await (const chunk of chunksOf(content)) hash.update(chunk);
  return hash.digest('hex');
}

async function countBytes(chunks: AsyncIterable<Uint8Array>): Promise<number> {
  let count = 0;
  for await (const chunk of chunks) count += chunk.length;
  return count;
}

async function gather(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts);
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}

function paddingAfter(sizeBytes: number): Buffer {
  return Buffer.alloc((512 - (sizeBytes % 512)) % 512);
}

function digits(number: number): string {
  return String(number).padStart(4, '0');
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
