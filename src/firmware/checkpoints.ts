import { AgentError } from '../system/errors.ts';
import { systemClock } from '../system/time/clock.ts';
import type { Clock } from '../system/time/clock.ts';
import type { Checkpoint, PayloadWriter } from '../update/ports.ts';
import type { FirmwareRequest } from '../update/ports/incoming.ts';
import type { ResumePoint } from './firmware-stream.ts';

/**
 * The distance between checkpoints. It weighs what a power cut costs against a pause and a small durable write for each
 * checkpoint.
 */
export interface CheckpointDistance {
  /** A checkpoint is due after this number of payload bytes … */
  readonly bytes: number;
  /** … if at least so much time has passed, so that fast lines hardly notice … */
  readonly shortestMs: number;
  /** … or after so much time with any number of bytes, since bytes are precious on a slow line. */
  readonly longestMs: number;
}

const defaultDistance: CheckpointDistance = { bytes: 16 * 1024 * 1024, shortestMs: 10_000, longestMs: 60_000 };

export interface CheckpointDeps {
  readonly onCheckpoint: FirmwareRequest['onCheckpoint'];
  /** Returns the present place in the encoded firmware, or undefined if no transfer could continue there. */
  readonly placeNow: () => ResumePoint | undefined;
  readonly distance?: CheckpointDistance | undefined;
  readonly clock?: Pick<Clock, 'monotonicMs'> | undefined;
}

/** A payload that is being written, and the content of its checkpoint besides the written prefix. */
export interface Resumable {
  readonly writer: PayloadWriter;
  /**
   * Returns the checkpoint for the present place in the encoded firmware, or undefined if no transfer could continue
   * here.
   */
  readonly describe: (place: ResumePoint | undefined) => Omit<Checkpoint, 'image'> | undefined;
}

/** Makes checkpoints while payloads are written: at their distance, and when the line is lost. */
export class Checkpoints {
  readonly #deps: CheckpointDeps;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #bytes = 0;
  #lastMs: number;

  constructor(deps: CheckpointDeps) {
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#lastMs = this.#clock.monotonicMs();
  }

  /** Writes the content of a payload. If the line is lost, a checkpoint keeps what has arrived. */
  async write(content: AsyncIterable<Uint8Array>, resumable: Resumable, signal: AbortSignal): Promise<void> {
    const { writer } = resumable;
    let isComing = true;
    try {
      for await (const chunk of content) {
        isComing = false;
        signal.throwIfAborted();
        const taken = writer.write(chunk);
        if (taken !== undefined) await taken;
        this.#bytes += chunk.length;
        if (this.#isDue) await this.#keep(resumable, signal);
        isComing = true;
      }
    } catch (error) {
      const isLineLost = isComing && error instanceof AgentError && error.remedy === 'retry';
      if (isLineLost && !signal.aborted) await this.#keep(resumable, signal);
      throw error;
    }
  }

  /** The present place in the encoded firmware, or undefined if no transfer could continue there. */
  get placeNow(): ResumePoint | undefined {
    return this.#deps.placeNow();
  }

  get #isDue(): boolean {
    const passedMs = this.#clock.monotonicMs() - this.#lastMs;
    const { bytes, shortestMs, longestMs } = this.#deps.distance ?? defaultDistance;
    return (this.#bytes >= bytes && passedMs >= shortestMs) || passedMs >= longestMs;
  }

  async #keep({ writer, describe }: Resumable, signal: AbortSignal): Promise<void> {
    const { onCheckpoint, placeNow } = this.#deps;
    if (onCheckpoint === undefined || this.#bytes === 0) return;
    const described = describe(placeNow());
    if (described === undefined) return;
    await onCheckpoint({ ...described, image: await writer.checkpoint(signal) });
    this.#bytes = 0;
    this.#lastMs = this.#clock.monotonicMs();
  }
}
