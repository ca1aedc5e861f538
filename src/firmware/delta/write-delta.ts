import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';

import { describeError, systemErrorCode } from '../../system/errors.ts';
import { openRegularFile } from '../../system/files/untrusted-file.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { BaseReader, DeltaClaims } from '../../update/ports.ts';
import { FirmwareError } from '../errors.ts';
import { encodeDelta, claimsOf } from './encode.ts';
import { rebuild } from './rebuild.ts';

/** A release engineer's request for a delta. Files are absolute paths. */
export interface DeltaOrder {
  /** The image that runs, and the image that is to run. */
  readonly base: string;
  readonly result: string;
  readonly name: string;
  readonly deviceType: string;
  /** If omitted, the partition that a `rootfs-image` goes to. */
  readonly target: string | undefined;
  readonly securityVersion: string | undefined;
  /** The file of a private key. If omitted, the artifact is signed later. */
  readonly key: string | undefined;
  /** The file of the artifact. */
  readonly output: string;
}

export interface WrittenDelta extends DeltaClaims {
  readonly path: string;
  readonly deltaBytes: number;
}

const FILE_NAME = 'rootfs.delta';
const READ_BYTES = 16 * 1024 * 1024;
const SIGNING_DEADLINE_MS = 600_000;

/** Makes the delta, rebuilds the result from it once as a check, and has mender-artifact write the artifact. */
export async function writeDelta(order: DeltaOrder, signal: AbortSignal): Promise<WrittenDelta> {
  const { output, key } = order;
  if (key !== undefined) await requireReadable(key);
  await using stack = new AsyncDisposableStack();
  const folder = await makeFolderBeside(output);
  stack.defer(async () => rm(folder, { recursive: true, force: true }));
  const [base, result] = [await readImage(order.base), await readImage(order.result)];
  const promise = claimsOf(base, result);
  const file = join(folder, FILE_NAME);
  await writeFile(file, encodeDelta(base, result), { signal });
  await requireRebuilds(file, { base, promise }, signal);
  const metaData = join(folder, 'meta-data.json');
  await writeFile(metaData, JSON.stringify({ deltas: { [FILE_NAME]: { target: order.target, ...promise } } }));
  const artifact = join(folder, basename(output));
  await wrap(order, { file, metaData, artifact, digest: promise.result.digest }, signal);
  await rename(artifact, output);
  return { path: output, deltaBytes: (await stat(output)).size, ...promise };
}

/** Checks the key first: mender-artifact would notice only at the end that it is missing. */
async function requireReadable(key: string): Promise<void> {
  try {
    await using file = await openRegularFile(key);
    await file.read(Buffer.alloc(1), 0, 1, 0);
  } catch (error) {
    throw unreadable(key, error);
  }
}

async function makeFolderBeside(output: string): Promise<string> {
  const folder = dirname(output);
  return mkdtemp(join(folder, '.delta-')).catch((error: unknown) => {
    const why = systemErrorCode(error) === 'ENOENT' ? `no such directory: ${folder}` : describeError(error);
    throw new FirmwareError('delta-unwritten', `cannot write ${output}: ${why}`, { cause: error });
  });
}

/** Reads a whole image into memory, which a release machine has. */
async function readImage(path: string): Promise<Buffer> {
  try {
    await using file = await openRegularFile(path);
    const image = Buffer.alloc((await file.stat()).size);
    for (let at = 0; at < image.byteLength;) {
      const { bytesRead } = await file.read(image, at, Math.min(READ_BYTES, image.byteLength - at), at);
      if (bytesRead === 0) throw new Error('it became shorter while it was read');
      at += bytesRead;
    }
    if (image.byteLength === 0) throw new Error('it is empty');
    if (image.toString('latin1', 0, 8) === 'version\0')
      throw new Error('it is an artifact: name the image that is in it');
    return image;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): FirmwareError {
  return new FirmwareError('file-unreadable', `cannot read ${path}: ${describeError(error)}`, { cause: error });
}

interface Made {
  readonly base: Buffer;
  readonly promise: DeltaClaims;
}

/** Rebuilds the result from the delta, as a gateway does. */
async function requireRebuilds(path: string, { base, promise }: Made, signal: AbortSignal): Promise<void> {
  const reader: BaseReader = {
    read: async (position, sizeBytes) => base.subarray(position, position + sizeBytes),
    [Symbol.asyncDispose]: async () => {},
  };
  const fileHash = createHash('sha256');
  await pipeline(createReadStream(path), fileHash);
  const file = { name: FILE_NAME, digest: `sha256:${fileHash.digest('hex')}`, promise };
  const hash = createHash('sha256');
  for await (const part of rebuild(createReadStream(path, { highWaterMark: READ_BYTES }), file, reader, signal))
    hash.update(part);
  if (`sha256:${hash.digest('hex')}` === promise.result.digest) return;
  throw new FirmwareError('delta-unwritten', 'the delta does not give back the image that it was made for');
}

/** The files that mender-artifact reads, the one that it writes, and the digest of the image that is rebuilt. */
interface DeltaFiles {
  readonly file: string;
  readonly metaData: string;
  readonly artifact: string;
  readonly digest: string;
}

async function wrap(
  order: DeltaOrder,
  { file, metaData, artifact, digest }: DeltaFiles,
  signal: AbortSignal,
): Promise<void> {
  const { name, deviceType, target, securityVersion, key } = order;
  const what = ['--type', 'thing-firmware', '--artifact-name', name, '--device-type', deviceType];
  const contents = ['--compression', 'none', '--file', file, '--meta-data', metaData];
  const security = securityVersion === undefined ? [] : ['--provides', `security_version:${securityVersion}`];
  const provides = target === undefined ? providesOfImage(name, digest) : [];
  const signing = key === undefined ? [] : ['--key', key];
  const ending = [...security, ...provides, ...signing, '--output-path', artifact];
  const command = ['mender-artifact', 'write', 'module-image', ...what, ...contents, ...ending] as const;
  const { exitCode, stderr } = await runProgram([...command], { timeoutMs: SIGNING_DEADLINE_MS }, signal);
  if (exitCode === 0) return;
  throw new FirmwareError('delta-unwritten', `mender-artifact: ${stderr.trim().split('\n').at(-1) ?? ''}`);
}

/**
 * Returns the same provides as mender-artifact for a rootfs-image, so that a gateway ends up like one that installed
 * the whole image.
 */
function providesOfImage(name: string, digest: string): readonly string[] {
  const provides = [`rootfs-image.version:${name}`, `rootfs-image.checksum:${digest.replace('sha256:', '')}`];
  const clears = ['artifact_group', 'rootfs_image_checksum', 'rootfs-image.*'];
  return [
    '--no-default-software-version',
    '--no-default-clears-provides',
    ...provides.flatMap((each) => ['--provides', each]),
    ...clears.flatMap((each) => ['--clears-provides', each]),
  ];
}
