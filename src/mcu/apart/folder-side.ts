import type { FlashableBoard, FlashFacts } from '../create-board.ts';
import type { FlashRequest } from '../flash/flash.ts';
import type { FlashStep, FlashStepAnswer, LinePort } from './line-port.ts';
import { MAX_HELD_SEGMENTS, MAX_PACKED_BYTES, MAX_PIECES, packImage, piecesOf, unpackImage } from './packed-image.ts';

const RAW = { format: 'raw', madeFor: undefined } as const;

/** A board whose line is in another process. That process is not trusted with more than the line. */
export function flashableApart(about: Omit<FlashableBoard, 'flash'>, line: LinePort): FlashableBoard {
  return { ...about, flash: async (request, signal) => flashApart(about.name, request, line, signal) };
}

async function flashApart(
  board: string,
  request: FlashRequest,
  line: LinePort,
  signal: AbortSignal,
): Promise<FlashFacts> {
  const image = packImage(request.image);
  const expected = request.expected === undefined ? undefined : packImage(request.expected);
  const keeps = request.keep !== undefined;
  const job = await line.open({ board, image: image.about, expected: expected?.about, keeps }, signal);
  try {
    for (const { bytes } of expected === undefined ? [image] : [image, expected])
      for (const piece of piecesOf(bytes)) await line.feed(job, piece, signal);
    const follower = new Follower(request, line);
    for (;;) {
      const flashed = await follower.take(await line.step(job, signal));
      if (flashed !== undefined) return flashed;
    }
  } finally {
    await line.close(job, signal);
  }
}

/** Does what each step asks of the folder, and refuses those that come out of turn. */
class Follower {
  readonly #request: FlashRequest;
  readonly #line: LinePort;
  readonly #pieces: Uint8Array[] = [];
  #heldBytes = 0;
  #isKept = false;
  #isWriting = false;

  constructor(request: FlashRequest, line: LinePort) {
    this.#request = request;
    this.#line = line;
  }

  /** What is to be remembered; undefined: it goes on. */
  async take({ step, bytes }: FlashStepAnswer): Promise<FlashFacts | undefined> {
    if (bytes !== undefined && step.kind !== 'held') throw this.#line.outOfTurn('the content of a board');
    switch (step.kind) {
      case 'progress': {
        const { phase, doneBytes, totalBytes } = step;
        this.#request.onProgress?.({ phase, doneBytes, totalBytes });
        return undefined;
      }
      case 'held':
        await this.#keep(step, bytes);
        return undefined;
      case 'writing':
        if (this.#isWriting) throw this.#line.outOfTurn('the writing of a board');
        await this.#request.beforeWriting?.();
        this.#isWriting = true;
        return undefined;
      case 'flashed':
        return this.#end(step);
    }
  }

  get #isTooMuch(): boolean {
    return this.#heldBytes > MAX_PACKED_BYTES || this.#pieces.length >= MAX_PIECES;
  }

  async #keep({ isLast }: Extract<FlashStep, { kind: 'held' }>, piece: Uint8Array | undefined): Promise<void> {
    const { keep } = this.#request;
    const isInTurn = keep !== undefined && !this.#isKept && !this.#isWriting;
    this.#heldBytes += piece?.byteLength ?? 0;
    if (!isInTurn || (piece === undefined && !isLast) || this.#isTooMuch)
      throw this.#line.outOfTurn('what a board held');
    if (piece !== undefined) this.#pieces.push(piece);
    if (!isLast) return;
    this.#isKept = true;
    const bytes = Buffer.concat(this.#pieces.splice(0));
    await keep(bytes.byteLength === 0 ? undefined : unpackImage(RAW, bytes, MAX_HELD_SEGMENTS));
  }

  #end({ chip, unitsWritten, repeated, roundTripMs }: Extract<FlashStep, { kind: 'flashed' }>): FlashFacts {
    if (unitsWritten > 0 && !this.#isWriting) throw this.#line.outOfTurn('the end of a flash');
    const imageDigest = this.#request.image.digest;
    return { chip: { name: chip }, imageDigest, unitsWritten, repeated, roundTripMs };
  }
}
