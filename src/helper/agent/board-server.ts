import type { FlashOrder } from '../../mcu/apart/line-port.ts';
import { LineSide } from '../../mcu/apart/line-side.ts';
import type { Board } from '../../mcu/connection.ts';
import { HelperError } from '../errors.ts';
import type { Answer } from '../link/link.ts';

/** A board of the configuration, by the name of its target. Throws `board-not-configured`. */
export type FindBoard = (name: string) => Board;

/** More than the helper flashes at once. */
const MAX_JOBS = 16;

/** Flashes boards for the helper within one order. It is disposed with the order, and has left all lines then. */
export class BoardServer implements AsyncDisposable {
  readonly #find: FindBoard;
  readonly #jobs = new Map<number, LineSide>();
  #lastJob = 0;

  constructor(find: FindBoard) {
    this.#find = find;
  }

  open(order: FlashOrder): number {
    if (this.#jobs.size >= MAX_JOBS) throw outOfTurn();
    const job = (this.#lastJob += 1);
    this.#jobs.set(job, new LineSide(this.#find(order.board), order));
    return job;
  }

  feed(job: number, piece: Uint8Array | undefined): void {
    this.#job(job).feed(piece ?? new Uint8Array());
  }

  async step(job: number, signal: AbortSignal): Promise<Answer> {
    const { step, bytes } = await this.#job(job).step(signal);
    return { output: step, body: bytes };
  }

  async close(job: number): Promise<void> {
    const found = this.#jobs.get(job);
    this.#jobs.delete(job);
    await found?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#jobs.keys()].map(async (job) => this.close(job)));
  }

  #job(job: number): LineSide {
    const found = this.#jobs.get(job);
    if (found === undefined) throw outOfTurn();
    return found;
  }
}

function outOfTurn(): HelperError {
  return new HelperError('link-malformed', 'a board came out of turn');
}
