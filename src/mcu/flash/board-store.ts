import { createHash } from 'node:crypto';
import type * as realFs from 'node:fs/promises';
import { dirname, join } from 'node:path';

import * as z from 'zod';

import { mapError, undefinedIf, undefinedIfMissing } from '../../system/errors.ts';
import {
  commitTempFile,
  nodeFs,
  readTextFile,
  replaceFileDurably,
  StorageError,
  syncDirectory,
} from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { parsedJson } from '../../system/json-value.ts';
import { McuError } from '../errors.ts';
import { makeImage, sliceOf } from '../images/image.ts';
import type { Image } from '../images/image.ts';
import { knownBy } from './known-by.ts';

/** An image with its digest, so that a file damaged on the disk is not flashed. */
const storedImage = z
  .object({
    format: z.enum(['intel-hex', 's-record', 'elf', 'uf2', 'mcuboot', 'esp', 'raw']),
    digest: z.string(),
    segments: z.array(z.object({ address: z.number(), base64: z.string() })),
  })
  .transform(({ format, digest, segments }, context): Image => {
    const pieces = segments.map(({ address, base64 }) => ({ address, bytes: Buffer.from(base64, 'base64') }));
    try {
      const image = makeImage(format, pieces);
      if (image.digest === digest) return image;
    } catch (error) {
      if (!(error instanceof McuError)) throw error;
    }
    context.addIssue('the image is damaged');
    return z.NEVER;
  });

const keptParts = {
  /** The digest of the payload that was flashed after this was kept; for a file that an operator flashed, another word. */
  payload: z.string(),
  /** True if it was read from the board, false if it is the last flashed image. */
  read: z.boolean(),
  /** The parts of the memory that the flashing changes or that hold the program, if the image was read. */
  changed: z
    .array(z.object({ start: z.number(), end: z.number() }))
    .readonly()
    .optional(),
  /** The payload, or other word, whose program is kept here. */
  over: z.string().optional(),
  chip: z.string().optional(),
};

/** Without an image it is strict, since an unknown member may be an image under a damaged name. */
const keptSchema = z.union([z.object({ ...keptParts, image: storedImage }), z.strictObject(keptParts)]);

/** The word in the backup that undoes the flashing of this image, if it is not its name. */
const payloadOnBoard = z.string().optional();

const flashedSchema = z.object({
  chip: z.string(),
  imageDigest: z.string(),
  /** The digest of the payload or file that the image came from, or another word for people. */
  name: z.string(),
  payload: payloadOnBoard,
  at: z.string(),
  /** How it is known that the board runs the image; missing where an older agent flashed it. */
  known: z.enum(knownBy).optional(),
  boots: z.string().optional(),
  attempts: z.number(),
  roundTripMs: z.number().optional(),
  image: storedImage,
});

const writingSchema = z.object({
  /** The name that people see. */
  name: z.string(),
  payload: payloadOnBoard,
  chip: z.string().optional(),
  at: z.string(),
  /** The number of interrupted attempts to write this image. */
  begun: z.number(),
  image: storedImage,
});

/** Replaces the mark when the writing has ended. */
const notWriting = 'null';

/** A write that has begun and not ended. Until it ends, the board may run nothing. */
export type WritingImage = Readonly<z.output<typeof writingSchema>>;

/** `unreadable`: there is a mark, but it cannot be read. */
export type WritingMark = WritingImage | 'unreadable';

/** The content of the board before a payload was flashed. Without an image it is unknown, or the memory was blank. */
export type KeptImage = Readonly<z.output<z.ZodObject<typeof keptParts>>> & { readonly image: Image | undefined };

/**
 * Returns the image that undoes the flashing: the former content of the changed parts, blank ones included, and all of
 * the former program, since another board may have taken the place. The application may keep data of its own in other
 * parts, which are newer than the backup.
 */
export function imageToRestore({ image, changed }: KeptImage): Image | undefined {
  if (image === undefined || changed === undefined) return image;
  return makeImage(
    image.format,
    changed.map(({ start, end }) => ({ address: start, bytes: sliceOf(image, start, end) })),
  );
}

/** The image that was flashed last, and how that went. */
export type FlashedImage = Readonly<z.output<typeof flashedSchema>>;

/** Returns the payload, or other word, whose program the board holds, if no write was interrupted. */
export function payloadOn(flashed: FlashedImage | undefined): string | undefined {
  return flashed?.payload ?? flashed?.name;
}

/** The functions of node:fs/promises that the folder of a board needs. */
export type BoardFs = DurableFs & Pick<typeof realFs, 'mkdir'>;

/**
 * The directory of one board in the state directory: the payload to be flashed, the board's previous content, and the
 * last flashed image. While a payload is on trial, the payload and the backup of the installed program are set aside: a
 * rollback to the version before it needs them after the trial failed.
 */
export class BoardStore {
  readonly payloadPath: string;
  readonly directory: string;
  readonly #payloadAside: string;
  readonly #keptPath: string;
  readonly #keptAside: string;
  readonly #flashedPath: string;
  readonly #writingPath: string;
  readonly #fs: BoardFs;

  constructor(directory: string, fs: BoardFs = nodeFs) {
    this.directory = directory;
    this.#fs = fs;
    this.payloadPath = join(directory, 'payload');
    this.#payloadAside = join(directory, 'payload-installed');
    this.#keptPath = join(directory, 'previous.json');
    this.#keptAside = join(directory, 'previous-installed.json');
    this.#flashedPath = join(directory, 'flashed.json');
    this.#writingPath = join(directory, 'writing.json');
  }

  /** Returns this payload, or undefined if the directory does not hold it undamaged. */
  async payload(digest: string): Promise<Buffer | undefined> {
    return (await this.#payloadIn(this.payloadPath, digest)) ?? this.#payloadIn(this.#payloadAside, digest);
  }

  async #payloadIn(path: string, digest: string): Promise<Buffer | undefined> {
    const reading = undefinedIfMissing(this.#fs.readFile(path));
    const bytes = await mapError(reading, (error) => new StorageError('read', path, error));
    return bytes !== undefined && payloadDigest(bytes) === digest ? bytes : undefined;
  }

  /** Sets the payload of the board's program aside before another one replaces it. */
  async setPayloadAside(): Promise<void> {
    const digest = payloadOn(await this.flashed());
    if (digest === undefined || (await this.#payloadIn(this.payloadPath, digest)) === undefined) return;
    await commitTempFile(this.payloadPath, this.#payloadAside, this.#fs);
  }

  /**
   * Returns the backup, or undefined if there is none yet. If its payload is not on the board, since its flashing never
   * began or was undone, the backup that was set aside takes its place again. Throws McuError `backup-damaged` for an
   * image that must not be restored.
   */
  async kept(): Promise<KeptImage | undefined> {
    const kept = await this.#keptIn(this.#keptPath);
    const onBoard = payloadOn(await this.flashed());
    if (onBoard === undefined || kept?.payload === onBoard || (await this.writing()) !== undefined) return kept;
    const aside = await undefinedIf((error) => error instanceof McuError, this.#keptIn(this.#keptAside));
    if (aside?.payload !== onBoard) return kept;
    await commitTempFile(this.#keptAside, this.#keptPath, this.#fs);
    return aside;
  }

  async #keptIn(path: string): Promise<KeptImage | undefined> {
    const text = await readTextFile(path, this.#fs);
    if (text === undefined) return undefined;
    const found = parsed(text, keptSchema);
    if (found !== undefined) return { image: undefined, ...found };
    throw new McuError('backup-damaged', `${path}, what the board held before, is damaged`);
  }

  /** Sets the backup of the board's program aside before another one replaces it. */
  async setBackupAside(): Promise<void> {
    await commitTempFile(this.#keptPath, this.#keptAside, this.#fs);
  }

  async keep(kept: KeptImage): Promise<void> {
    await this.#record(this.#keptPath, kept);
  }

  /** Returns the last flashed image, or undefined if there is none, or the record is damaged, which only costs time. */
  async flashed(): Promise<FlashedImage | undefined> {
    const text = await readTextFile(this.#flashedPath, this.#fs);
    return text === undefined ? undefined : parsed(text, flashedSchema);
  }

  /** Returns the write that has not ended, if any. */
  async writing(): Promise<WritingMark | undefined> {
    const text = await readTextFile(this.#writingPath, this.#fs);
    return text === undefined || text === notWriting ? undefined : (parsed(text, writingSchema) ?? 'unreadable');
  }

  /** Guarantee `half-board`: notes that the board is being written. This is durable before its first byte changes. */
  async beginWriting(writing: WritingImage): Promise<void> {
    await this.#record(this.#writingPath, writing);
  }

  /** Notes that the board holds this image. If it was marked as being written, this ends the mark. */
  async remember(flashed: FlashedImage): Promise<void> {
    await this.#record(this.#flashedPath, flashed);
    if ((await this.writing()) !== undefined) await this.#write(this.#writingPath, notWriting);
  }

  async #record(path: string, record: KeptImage | FlashedImage | WritingImage): Promise<void> {
    await this.#write(path, JSON.stringify({ ...record, image: record.image && toStored(record.image) }));
  }

  async #write(path: string, text: string): Promise<void> {
    await mapError(makeFolder(this.directory, this.#fs), (error) => new StorageError('write', path, error));
    await replaceFileDurably(path, text, this.#fs);
  }
}

/** Makes a folder and the missing ones above it, so that no power cut can remove them with their content. */
export async function makeFolder(path: string, fs: BoardFs = nodeFs): Promise<void> {
  const first = await fs.mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) await syncDirectory(dirname(made), fs);
}

function parsed<T extends z.ZodType>(text: string, schema: T): z.output<T> | undefined {
  return schema.safeParse(parsedJson(text)).data;
}

function toStored({ format, digest, segments }: Image): z.input<typeof storedImage> {
  return {
    format,
    digest,
    segments: segments.map(({ address, bytes }) => ({ address, base64: Buffer.from(bytes).toString('base64') })),
  };
}

export function payloadDigest(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
