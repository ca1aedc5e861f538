import assert from 'node:assert/strict';

import type {
  ArtifactPlace,
  PayloadOpening,
  PayloadWriter,
  StagedPayload,
  StagingRequest,
  WrittenPrefix,
} from '../../update/ports.ts';
import { ByteReader } from '../byte-reader.ts';
import type { Checkpoints } from '../checkpoints.ts';
import type { Compression } from '../compression/compression.ts';
import { rebuild, wrongBase } from '../delta/rebuild.ts';
import { WindowPlaces } from '../delta/window-places.ts';
import { staleCheckpoint, VerificationError } from '../errors.ts';
import type { StreamPlace } from '../firmware-stream.ts';
import { unexpected } from './envelope.ts';
import { compressionOf } from './manifest.ts';
import { insideMember, quoted } from './refusal.ts';
import { TarReader } from './tar-reader.ts';
import type { PromisedFile } from './targets.ts';

export type Decompress = (
  kind: Compression,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
) => AsyncIterable<Uint8Array>;

export interface PayloadContext {
  readonly promised: readonly (readonly PromisedFile[])[];
  readonly isSigned: boolean;
  /** The part before the payloads, as a checkpoint keeps it; undefined: it is too large to be kept. */
  readonly head: string | undefined;
  readonly openPayload: StagingRequest['openPayload'];
  readonly openBase: StagingRequest['openBase'];
  readonly decompress: Decompress;
  readonly checkpoints: Checkpoints;
}

type WholeFile = ArtifactPlace['whole'][number];

/** The place in an artifact where an earlier transfer was cut. */
export interface ResumedAt {
  readonly place: ArtifactPlace;
  readonly image: WrittenPrefix;
}

/** A member `data/NNNN.tar`, and the readers of its content. */
interface DataMember {
  readonly number: number;
  readonly outer: TarReader;
  readonly sizeBytes: number;
  readonly inner: TarReader;
  readonly unpacked: ByteReader;
  readonly isCompressed: boolean;
}

interface DeltaToRebuild {
  readonly file: PromisedFile;
  readonly openBase: NonNullable<StagingRequest['openBase']>;
}

interface FileMember {
  readonly name: string;
  readonly sizeBytes: number;
  readonly resumeAt?: WrittenPrefix | undefined;
  /** If the file is a delta: the place in its content. */
  readonly delta?: ArtifactPlace['delta'];
}

/**
 * Stages the payloads of one artifact: writes each file to its place, and compares its digest with that in the
 * manifest.
 */
export class PayloadStager {
  readonly #context: PayloadContext;
  readonly #staged: StagedPayload[] = [];
  readonly #whole: WholeFile[] = [];

  constructor(context: PayloadContext) {
    this.#context = context;
  }

  /** Stages everything from the first `data/NNNN.tar` to the artifact's end. */
  async stage(outer: TarReader, signal: AbortSignal): Promise<readonly StagedPayload[]> {
    await this.#stageFrom(0, outer, signal);
    return this.#staged;
  }

  /** Stages everything from a place within a file on. Throws `checkpoint-stale` if this artifact has no such place. */
  async resume(bytes: ByteReader, resumed: ResumedAt, signal: AbortSignal): Promise<readonly StagedPayload[]> {
    const { place, image } = resumed;
    const { payload: number, member, file, delta } = place;
    requirePlausible(resumed);
    this.#requireNoGap(place);
    for (const whole of place.whole) await this.#takeWhole(whole, signal);
    const name = `data/${digits(number)}.tar`;
    const outer = TarReader.within(bytes, 'artifact', { name, ...member });
    await insideMember(name, outer.content(), async (content) => {
      await using unpacked = new ByteReader(content, name);
      const left = { ...file, leftBytes: file.sizeBytes - (delta?.takenBytes ?? image.sizeBytes) };
      const inner = TarReader.within(unpacked, `artifact, ${name}`, left);
      const data = { number, outer, sizeBytes: member.sizeBytes, inner, unpacked, isCompressed: false };
      await this.#stageFiles(data, { ...file, resumeAt: image, delta }, signal);
    });
    await this.#stageFrom(number + 1, outer, signal);
    return this.#staged;
  }

  async #stageFrom(first: number, outer: TarReader, signal: AbortSignal): Promise<void> {
    for (let number = first; number < this.#context.promised.length; number += 1) {
      await this.#stageData(number, outer, signal);
    }
    const extra = await outer.next();
    if (extra !== undefined) throw unexpected(extra.name, 'the end');
  }

  /** Stages one `data/NNNN.tar`, which must hold exactly the files that the manifest names, in any order. */
  async #stageData(number: number, outer: TarReader, signal: AbortSignal): Promise<void> {
    const stem = `data/${digits(number)}.tar`;
    const member = await outer.next();
    const compression = compressionOf(member?.name ?? '', stem);
    if (member === undefined || compression === undefined) throw unexpected(member?.name, stem);
    const { name, sizeBytes } = member;
    await insideMember(name, outer.content(), async (content) => {
      const decompressed = this.#context.decompress(compression, content, signal);
      await using unpacked = new ByteReader(decompressed, name, compression === 'none' ? sizeBytes : undefined);
      const inner = new TarReader(unpacked, `artifact, ${name}`);
      const data = { number, outer, sizeBytes, inner, unpacked, isCompressed: compression !== 'none' };
      await this.#stageFiles(data, await inner.next(), signal);
    });
  }

  async #stageFiles(data: DataMember, first: FileMember | undefined, signal: AbortSignal): Promise<void> {
    const before = this.#whole.filter(({ payload }) => payload === data.number).map(({ name }) => name);
    const awaited = new Map(this.#promised(data.number).map((file) => [file.header.fileName, file]));
    for (const name of before) awaited.delete(name);
    for (let member = first; member !== undefined; member = await data.inner.next()) {
      const file = awaited.get(member.name);
      if (file === undefined) throw mismatch(member.name, 'is in the artifact, but the manifest lacks it');
      if (member.sizeBytes === 0) throw mismatch(member.name, 'is empty');
      awaited.delete(member.name);
      this.#staged.push(await this.#stageFile(data, member, file, signal));
      const { sizeBytes } = file.header.delta?.result ?? member;
      this.#whole.push({ payload: data.number, name: member.name, sizeBytes });
    }
    for (const fileName of awaited.keys()) throw mismatch(fileName, 'is in the manifest, but the artifact lacks it');
  }

  async #stageFile(
    data: DataMember,
    member: FileMember,
    file: PromisedFile,
    signal: AbortSignal,
  ): Promise<StagedPayload> {
    const { openPayload, openBase, checkpoints } = this.#context;
    const isDelta = file.header.delta !== undefined && openBase !== undefined;
    if (isDelta) return this.#rebuildFile(data, member, { file, openBase }, signal);
    const { sizeBytes, resumeAt } = member;
    await using writer = await openPayload({ payload: file.header, sizeBytes, resumeAt });
    const describe = (place: StreamPlace | undefined) => this.#placeIn(data, member, place);
    await checkpoints.write(data.inner.content(), { writer, describe }, signal);
    return await this.#judge(writer, file, file.fileDigest, signal);
  }

  /** Rebuilds a file from the image that runs. After a cut, it continues behind the last window that was rebuilt. */
  async #rebuildFile(
    data: DataMember,
    member: FileMember,
    { file, openBase }: DeltaToRebuild,
    signal: AbortSignal,
  ): Promise<StagedPayload> {
    const { openPayload, checkpoints } = this.#context;
    const { header, fileDigest: digest } = file;
    const { delta: promise, fileName: name } = header;
    assert(promise !== undefined, 'no delta');
    await using base = await openBase(header);
    const { sizeBytes } = promise.result;
    const { resumeAt, delta: from } = member;
    const resumed = from && { skipBytes: from.skipBytes, resultBytes: resumeAt?.sizeBytes ?? 0 };
    if (resumed !== undefined && resumed.resultBytes > sizeBytes)
      throw staleCheckpoint('more than the result is there');
    await using writer = await openPayload({ payload: header, sizeBytes, resumeAt });
    const watch = new WindowPlaces(from?.takenBytes ?? 0, () => this.#placeIn(data, member, checkpoints.place));
    const content = watch.through(data.inner.content());
    const result = rebuild(content, { name, digest, promise, watch, resumed }, base, signal);
    await checkpoints.write(result, { writer, describe: () => withDelta(watch.last) }, signal);
    const staged = await this.#judge(writer, file, file.digest, signal);
    const fromBaseBytes = Math.max(0, sizeBytes - member.sizeBytes);
    return { ...staged, written: { ...staged.written, fromBaseBytes } };
  }

  async #judge(
    writer: PayloadWriter,
    file: PromisedFile,
    awaitedDigest: string,
    signal: AbortSignal,
  ): Promise<StagedPayload> {
    const written = await writer.finish(signal);
    if (written.digest !== awaitedDigest) {
      if (file.header.delta !== undefined && awaitedDigest === file.digest)
        throw wrongBase(`what was rebuilt as ${quoted(file.header.fileName)} is not what was signed`);
      throw new VerificationError(
        'digest-mismatch',
        `artifact: payload ${quoted(file.header.fileName)} is not what the manifest promises`,
      );
    }
    const promise: StagedPayload['promise'] = this.#context.isSigned
      ? { kind: 'manifest', digest: file.digest }
      : { kind: 'unsigned-permitted' };
    return { header: file.header, written, promise };
  }

  /**
   * Takes over a file that was staged before a restart: reads its place, and compares the digest with that in the
   * manifest.
   */
  async #takeWhole(whole: WholeFile, signal: AbortSignal): Promise<void> {
    const { payload: number, name, sizeBytes } = whole;
    const file = this.#promised(number).find(({ header }) => header.fileName === name);
    if (file === undefined) throw staleCheckpoint(`it names a file ${quoted(name)} that the artifact lacks`);
    const resumeAt = { sizeBytes, digest: file.digest };
    const opening: PayloadOpening = { payload: file.header, sizeBytes, resumeAt };
    await using writer = await this.#context.openPayload(opening);
    this.#staged.push(await this.#judge(writer, file, file.digest, signal));
    this.#whole.push(whole);
  }

  #requireNoGap({ payload, whole }: ArtifactPlace): void {
    const before = this.#context.promised
      .slice(0, payload)
      .flatMap((files, number) => files.map(({ header }) => `${number} ${header.fileName}`));
    const named = new Set(whole.map((file) => `${file.payload} ${file.name}`));
    if (before.every((file) => named.has(file)) && named.size === whole.length) return;
    throw staleCheckpoint('the files before its place are not those of the artifact');
  }

  #promised(number: number): readonly PromisedFile[] {
    return this.#context.promised[number] ?? [];
  }

  /** The place for a checkpoint; undefined: a transfer could not be continued here. */
  #placeIn(
    { number, outer, sizeBytes, unpacked, isCompressed }: DataMember,
    { name, sizeBytes: fileBytes }: FileMember,
    place: StreamPlace | undefined,
  ): PlaceInFile | undefined {
    const { head } = this.#context;
    if (place === undefined || head === undefined || isCompressed || !unpacked.isDrained) return undefined;
    const member = { sizeBytes, leftBytes: outer.leftBytes };
    const file = { name, sizeBytes: fileBytes };
    return { ...place, artifact: { head, payload: number, member, file, whole: [...this.#whole] } };
  }
}

type PlaceInFile = StreamPlace & { readonly artifact: ArtifactPlace };

function withDelta(last: WindowPlaces<PlaceInFile>['last']): PlaceInFile | undefined {
  return last && { ...last.place, artifact: { ...last.place.artifact, delta: last.delta } };
}

function requirePlausible({ place, image }: ResumedAt): void {
  const { payload, member, file, delta } = place;
  const readBytes = delta === undefined ? image.sizeBytes : delta.takenBytes + delta.skipBytes;
  const numbers = [
    payload,
    member.leftBytes,
    file.sizeBytes,
    image.sizeBytes,
    delta?.takenBytes ?? 0,
    delta?.skipBytes ?? 0,
    ...place.whole.map((each) => each.sizeBytes),
  ];
  const areSizes = numbers.every((number) => Number.isSafeInteger(number) && number >= 0);
  if (areSizes && readBytes <= file.sizeBytes && Number.isSafeInteger(member.sizeBytes)) return;
  throw staleCheckpoint('its sizes contradict each other');
}

function digits(number: number): string {
  return String(number).padStart(4, '0');
}

function mismatch(fileName: string, why: string): VerificationError {
  return new VerificationError('manifest-mismatch', `artifact: payload ${quoted(fileName)} ${why}`);
}
