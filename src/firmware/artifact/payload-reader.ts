import assert from 'node:assert/strict';

import type { ArtifactPlace, BaseReader, PayloadWriter, WrittenPrefix } from '../../update/ports.ts';
import type { IncomingPayload, PayloadPlace, StagedPayload } from '../../update/ports/incoming.ts';
import { ByteReader } from '../byte-reader.ts';
import type { Checkpoints } from '../checkpoints.ts';
import type { Compression } from '../compression/compression.ts';
import { rebuild, wrongBase } from '../delta/rebuild.ts';
import { WindowOffsets } from '../delta/window-offsets.ts';
import { staleCheckpoint, VerificationError } from '../errors.ts';
import type { ResumePoint } from '../firmware-stream.ts';
import { withMappedErrors } from '../incoming.ts';
import { unexpected } from './envelope.ts';
import { requirePlausible } from './header-checkpoint.ts';
import type { ResumedAt } from './header-checkpoint.ts';
import { compressionOf } from './manifest.ts';
import { quoted, watchMember } from './refusal.ts';
import { TarReader } from './tar/tar-reader.ts';
import type { TarMember } from './tar/tar-reader.ts';
import type { DeclaredFile } from './targets.ts';

export type Decompress = (
  kind: Compression,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
) => AsyncIterable<Uint8Array>;

export interface PayloadDeps {
  readonly promised: readonly (readonly DeclaredFile[])[];
  readonly isSigned: boolean;
  /** The part before the payloads, as a checkpoint keeps it. Omitted if it is too large to be kept. */
  readonly head: string | undefined;
  readonly decompress: Decompress;
  readonly checkpoints: Checkpoints;
}

type WholeFile = ArtifactPlace['whole'][number];

/** A member `data/NNNN.tar`, of any compression. */
interface PackedMember {
  readonly number: number;
  readonly outer: TarReader;
  readonly member: TarMember;
  readonly compression: Compression;
}

/** The member `data/NNNN.tar`, and the readers of its content. */
interface DataMember {
  readonly number: number;
  readonly outer: TarReader;
  readonly sizeBytes: number;
  readonly inner: TarReader;
  readonly unpacked: ByteReader;
  readonly isCompressed: boolean;
}

interface FileMember {
  readonly name: string;
  readonly sizeBytes: number;
  readonly resumeAt?: WrittenPrefix | undefined;
  /** If the file is a delta: the place in its content. */
  readonly delta?: ArtifactPlace['delta'];
}

/** A file of the artifact whose bytes come next. */
interface FoundFile {
  readonly data: DataMember;
  readonly member: FileMember;
  readonly file: DeclaredFile;
}

type Payloads = AsyncGenerator<IncomingPayload, void, undefined>;

/**
 * Reads the payloads of one artifact. While each file is written, its digest is computed and compared with the
 * manifest.
 */
export class PayloadReader {
  readonly #deps: PayloadDeps;
  readonly #whole: WholeFile[] = [];

  constructor(deps: PayloadDeps) {
    this.#deps = deps;
  }

  /** Reads everything from the first `data/NNNN.tar` to the artifact's end. */
  read(outer: TarReader, signal: AbortSignal): Payloads {
    return this.#readFrom(0, outer, signal);
  }

  /** Reads everything from a place within a file on. Throws `checkpoint-stale` if this artifact has no such place. */
  async *resume(bytes: ByteReader, resumed: ResumedAt, signal: AbortSignal): Payloads {
    const { place, image } = resumed;
    const { payload: number, member, file, delta } = place;
    requirePlausible(resumed);
    this.#requireNoGap(place);
    for (const whole of place.whole) {
      yield this.#wholeFile(whole);
      this.#whole.push(whole);
    }
    const name = `data/${digits(number)}.tar`;
    const outer = TarReader.within(bytes, 'artifact', { name, ...member });
    const { content, told } = watchMember(name, outer.content());
    await using unpacked = new ByteReader(content, name);
    const left = { ...file, leftBytes: file.sizeBytes - (delta?.takenBytes ?? image.sizeBytes) };
    const inner = TarReader.within(unpacked, `artifact, ${name}`, left);
    const data = { number, outer, sizeBytes: member.sizeBytes, inner, unpacked, isCompressed: false };
    yield* withMappedErrors(this.#files(data, { ...file, resumeAt: image, delta }), told);
    yield* this.#readFrom(number + 1, outer, signal);
  }

  async *#readFrom(first: number, outer: TarReader, signal: AbortSignal): Payloads {
    for (let number = first; number < this.#deps.promised.length; number += 1) {
      yield* this.#readData(number, outer, signal);
    }
    const extra = await outer.next();
    if (extra !== undefined) throw unexpected(extra.name, 'the end');
  }

  /** Reads one `data/NNNN.tar`, which must hold exactly the files that the manifest names, in any order. */
  async *#readData(number: number, outer: TarReader, signal: AbortSignal): Payloads {
    const stem = `data/${digits(number)}.tar`;
    const member = await outer.next();
    const compression = compressionOf(member?.name ?? '', stem);
    if (member === undefined || compression === undefined) throw unexpected(member?.name, stem);
    const { content, told } = watchMember(member.name, outer.content());
    yield* withMappedErrors(this.#unpack({ number, outer, member, compression }, content, signal), told);
  }

  async *#unpack(
    { number, outer, member: { name, sizeBytes }, compression }: PackedMember,
    content: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Payloads {
    const isCompressed = compression !== 'none';
    const decompressed = this.#deps.decompress(compression, content, signal);
    await using unpacked = new ByteReader(decompressed, name, isCompressed ? undefined : sizeBytes);
    const inner = new TarReader(unpacked, `artifact, ${name}`);
    yield* this.#files({ number, outer, sizeBytes, inner, unpacked, isCompressed }, undefined);
  }

  /** `begun`: the file within which the reading begins. */
  async *#files(data: DataMember, begun: FileMember | undefined): Payloads {
    const before = this.#whole.filter(({ payload }) => payload === data.number).map(({ name }) => name);
    const awaited = new Map(this.#promised(data.number).map((file) => [file.header.fileName, file]));
    for (const name of before) awaited.delete(name);
    const next = async (): Promise<FileMember | undefined> => data.inner.next();
    for (let member = begun ?? (await next()); member !== undefined; member = await next()) {
      const file = awaited.get(member.name);
      if (file === undefined) throw mismatch(member.name, 'is in the artifact, but the manifest lacks it');
      if (member.sizeBytes === 0) throw mismatch(member.name, 'is empty');
      awaited.delete(member.name);
      yield this.#payloadOf({ data, member, file });
      const { sizeBytes } = file.header.delta?.result ?? member;
      this.#whole.push({ payload: data.number, name: member.name, sizeBytes });
    }
    for (const fileName of awaited.keys()) throw mismatch(fileName, 'is in the manifest, but the artifact lacks it');
  }

  #payloadOf(found: FoundFile): IncomingPayload {
    const { header } = found.file;
    const { resumeAt } = found.member;
    const { sizeBytes } = header.delta?.result ?? found.member;
    if ((resumeAt?.sizeBytes ?? 0) > sizeBytes) throw staleCheckpoint('more than the result is there');
    return {
      payload: header,
      sizeBytes,
      resumeAt,
      isRebuilt: header.delta !== undefined,
      write: async ({ writer, base }: PayloadPlace, signal) =>
        header.delta === undefined || base === undefined
          ? this.#writeFile(found, writer, signal)
          : this.#rebuildFile(found, { writer, base }, signal),
    };
  }

  async #writeFile(
    { data, member, file }: FoundFile,
    writer: PayloadWriter,
    signal: AbortSignal,
  ): Promise<StagedPayload> {
    const describe = (place: ResumePoint | undefined) => this.#placeIn(data, member, place);
    await this.#deps.checkpoints.write(data.inner.content(), { writer, describe }, signal);
    return this.#verify(writer, file, file.fileDigest, signal);
  }

  /** Rebuilds a file from the image that runs. After a cut, it continues behind the last window that was rebuilt. */
  async #rebuildFile(
    { data, member, file }: FoundFile,
    { writer, base }: PayloadPlace & { readonly base: BaseReader },
    signal: AbortSignal,
  ): Promise<StagedPayload> {
    const { checkpoints } = this.#deps;
    const { delta: promise, fileName: name } = file.header;
    assert(promise !== undefined, 'no delta');
    const { resumeAt, delta: from } = member;
    const resumed = from && { skipBytes: from.skipBytes, resultBytes: resumeAt?.sizeBytes ?? 0 };
    const watch = new WindowOffsets(from?.takenBytes ?? 0, () => this.#placeIn(data, member, checkpoints.placeNow));
    const content = watch.through(data.inner.content());
    const result = rebuild(content, { name, digest: file.fileDigest, promise, watch, resumed }, base, signal);
    await checkpoints.write(result, { writer, describe: () => withDelta(watch.last) }, signal);
    const staged = await this.#verify(writer, file, file.digest, signal);
    const fromBaseBytes = Math.max(0, promise.result.sizeBytes - member.sizeBytes);
    return { ...staged, written: { ...staged.written, deltaBaseBytes: fromBaseBytes } };
  }

  async #verify(
    writer: PayloadWriter,
    file: DeclaredFile,
    awaitedDigest: string,
    signal: AbortSignal,
  ): Promise<StagedPayload> {
    const written = await writer.finish(signal);
    if (written.digest !== awaitedDigest) {
      if (file.header.delta !== undefined && awaitedDigest === file.digest)
        throw wrongBase(`the rebuilt ${quoted(file.header.fileName)} is not the signed one`);
      throw new VerificationError(
        'digest-mismatch',
        `artifact: payload ${quoted(file.header.fileName)} is not what the manifest promises`,
      );
    }
    const promise: StagedPayload['promise'] = this.#deps.isSigned
      ? { kind: 'manifest', digest: file.digest }
      : { kind: 'unsigned-permitted' };
    return { header: file.header, written, promise };
  }

  /**
   * Takes over a file that was staged before a restart: reads its place, and compares the digest with that in the
   * manifest.
   */
  #wholeFile({ payload: number, name, sizeBytes }: WholeFile): IncomingPayload {
    const file = this.#promised(number).find(({ header }) => header.fileName === name);
    if (file === undefined) throw staleCheckpoint(`it names a file ${quoted(name)} that the artifact lacks`);
    return {
      payload: file.header,
      sizeBytes,
      resumeAt: { sizeBytes, digest: file.digest },
      isRebuilt: false,
      write: async ({ writer }, signal) => this.#verify(writer, file, file.digest, signal),
    };
  }

  #requireNoGap({ payload, whole }: ArtifactPlace): void {
    const before = this.#deps.promised
      .slice(0, payload)
      .flatMap((files, number) => files.map(({ header }) => `${number} ${header.fileName}`));
    const named = new Set(whole.map((file) => `${file.payload} ${file.name}`));
    if (before.every((file) => named.has(file)) && named.size === whole.length) return;
    throw staleCheckpoint('the files before its place do not belong to the artifact');
  }

  #promised(number: number): readonly DeclaredFile[] {
    return this.#deps.promised[number] ?? [];
  }

  /** Returns the place for a checkpoint, or undefined if a transfer could not be continued here. */
  #placeIn(
    { number, outer, sizeBytes, unpacked, isCompressed }: DataMember,
    { name, sizeBytes: fileBytes }: FileMember,
    place: ResumePoint | undefined,
  ): PlaceInFile | undefined {
    const { head } = this.#deps;
    if (place === undefined || head === undefined || isCompressed || !unpacked.isDrained) return undefined;
    const member = { sizeBytes, leftBytes: outer.leftBytes };
    const file = { name, sizeBytes: fileBytes };
    return { ...place, artifact: { head, payload: number, member, file, whole: [...this.#whole] } };
  }
}

type PlaceInFile = ResumePoint & { readonly artifact: ArtifactPlace };

function withDelta(last: WindowOffsets<PlaceInFile>['last']): PlaceInFile | undefined {
  return last && { ...last.place, artifact: { ...last.place.artifact, delta: last.delta } };
}

function digits(number: number): string {
  return String(number).padStart(4, '0');
}

function mismatch(fileName: string, why: string): VerificationError {
  return new VerificationError('manifest-mismatch', `artifact: payload ${quoted(fileName)} ${why}`);
}
