import { abortable } from '../../system/abortable.ts';
import type { Board } from '../connection.ts';
import { McuError } from '../errors.ts';
import { flash } from '../flash/flash.ts';
import type { FlashProgress, FlashReport } from '../flash/flash.ts';
import type { Image } from '../images/image.ts';
import type { FlashOrder, FlashStepAnswer } from './line-port.ts';
import { packImage, piecesOf, unpackImage } from './packed-image.ts';
import type { PackedAbout } from './packed-image.ts';

/** What the flashing waits for: it goes on when the step after the last of these is asked for. */
interface Pause {
  readonly answers: FlashStepAnswer[];
  readonly goOn: () => void;
}

type End = { readonly report: FlashReport } | { readonly error: unknown };

/** Flashes a board for the process that has its folder, one step after the other. Disposing it ends the work. */
export class LineSide implements AsyncDisposable {
  readonly #board: Board;
  readonly #order: FlashOrder;
  readonly #fed: Uint8Array[] = [];
  readonly #ending = new AbortController();
  #fedBytes = 0;
  #work: Promise<void> | undefined;
  #progress: FlashProgress | undefined;
  #pause: Pause | undefined;
  #end: End | undefined;
  #news = Promise.withResolvers<void>();

  constructor(board: Board, order: FlashOrder) {
    this.#board = board;
    this.#order = order;
  }

  /** Takes the next piece of the images. */
  feed(piece: Uint8Array): void {
    this.#fedBytes += piece.byteLength;
    if (this.#work !== undefined || this.#fedBytes > this.#announcedBytes) throw cut(this.#board);
    this.#fed.push(piece);
  }

  /** Waits for the next step. Throws what the flashing threw. */
  async step(signal: AbortSignal): Promise<FlashStepAnswer> {
    this.#work ??= this.#flash();
    if (this.#pause?.answers.length === 0) {
      this.#pause.goOn();
      this.#pause = undefined;
    }
    for (;;) {
      const answer = this.#next();
      if (answer !== undefined) return answer;
      await abortable(this.#news.promise, signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new Error('the flashing was called off'));
    await this.#work;
  }

  get #announcedBytes(): number {
    return this.#order.image.packedBytes + (this.#order.expected?.packedBytes ?? 0);
  }

  /** What there is to tell; undefined: nothing yet. */
  #next(): FlashStepAnswer | undefined {
    if (this.#progress !== undefined) {
      const { phase, doneBytes, totalBytes } = this.#progress;
      this.#progress = undefined;
      // what is counted in halves for the two passes of a reading
      return { step: { kind: 'progress', phase, doneBytes: Math.floor(doneBytes), totalBytes } };
    }
    const answer = this.#pause?.answers.shift();
    if (answer !== undefined || this.#end === undefined) return answer;
    if ('error' in this.#end) throw this.#end.error;
    const { chip, unitsWritten, repeated, roundTripMs } = this.#end.report;
    return { step: { kind: 'flashed', chip: chip.name, unitsWritten, repeated, roundTripMs } };
  }

  /** Never fails: the next step tells how it ended. */
  async #flash(): Promise<void> {
    const { signal } = this.#ending;
    try {
      const { image, expected } = this.#images();
      const keep = async (previous: Image | undefined): Promise<void> => this.#tell(heldAnswers(previous));
      const beforeWriting = async (): Promise<void> => this.#tell([{ step: { kind: 'writing' } }]);
      const onProgress = (progress: FlashProgress): void => {
        this.#progress = progress;
        this.#wake();
      };
      const request = { image, expected, keep: this.#order.keeps ? keep : undefined, beforeWriting, onProgress };
      this.#end = { report: await flash(request, this.#board, signal) };
    } catch (error) {
      this.#end = { error };
    }
    this.#wake();
  }

  #images(): { readonly image: Image; readonly expected: Image | undefined } {
    if (this.#fedBytes !== this.#announcedBytes) throw cut(this.#board);
    const { image, expected } = this.#order;
    const bytes = Buffer.concat(this.#fed.splice(0));
    const unpacked = (about: PackedAbout, from: number): Image =>
      unpackImage(about, bytes.subarray(from, from + about.packedBytes));
    return {
      image: unpacked(image, 0),
      expected: expected === undefined ? undefined : unpacked(expected, image.packedBytes),
    };
  }

  /** Resolves when the other side has taken all of it, and done what must be done first. */
  async #tell(answers: FlashStepAnswer[]): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pause = { answers, goOn: resolve };
    this.#wake();
    await abortable(promise, this.#ending.signal);
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

function heldAnswers(previous: Image | undefined): FlashStepAnswer[] {
  if (previous === undefined) return [{ step: { kind: 'held', isLast: true } }];
  const pieces = [...piecesOf(packImage(previous).bytes)];
  return pieces.map((bytes, index) => ({ step: { kind: 'held', isLast: index === pieces.length - 1 }, bytes }));
}

function cut({ name }: Board): McuError {
  return new McuError('image-truncated', `${name}: its image did not come across as it was announced`);
}
