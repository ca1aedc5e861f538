import type { Connection } from '../connection.ts';
import { McuError } from '../errors.ts';
import type { Image } from '../images/image.ts';
import type { Conversation, Standing, UploadSession } from '../protocol.ts';
import type { ConnectedRequest, FlashReport, OnFlashProgress, Outcome } from './flash.ts';

/** The flashing fails after this number of uploads from which the board has kept nothing right. */
const maxUploads = 4;
/** A board needs one start or two to finish a trial or a change of slots. */
const maxRestarts = 4;

/**
 * Brings a board with slots to run an image: finds out what the image is to the board, does the next step, and asks
 * again. It is not enough that the board holds the image.
 */
export class UploadJob {
  readonly #connection: Connection;
  readonly #request: ConnectedRequest;
  readonly #report: OnFlashProgress;
  #uploads = 0;
  #restarts = 0;
  #wasSelected = false;
  /** True if the application runs since the last step. To start it again would end a trial. */
  #isStarted = false;

  constructor(connection: Connection, request: ConnectedRequest, report: OnFlashProgress) {
    this.#connection = connection;
    this.#request = request;
    this.#report = report;
  }

  async bringToRun(signal: AbortSignal): Promise<Outcome> {
    const known = await this.#bringToRun(signal);
    const [unitsWritten, rewritten] = [this.#uploads > 0 || this.#wasSelected ? 1 : 0, Math.max(0, this.#uploads - 1)];
    return { known, unitsWritten, unitsTotal: 1, rewritten, isStarted: this.#isStarted };
  }

  /** Returns how it is known that the board runs the image. */
  async #bringToRun(signal: AbortSignal): Promise<FlashReport['known']> {
    const { image } = this.#request;
    for (let isKept = false; ;) {
      const standing = await standingOf(this.#connection, image, signal);
      if (standing === 'stays') return 'active-slot';
      if (standing === 'first') return 'first-slot';
      if (standing === 'on-trial' && this.#wasSelected) return 'on-trial';
      if (standing === 'unknown' && this.#uploads > 0) return 'sent';
      const isSettled = standing !== 'on-trial' && standing !== 'unsettled';
      // a board on trial runs another image than the one it falls back to
      if (isSettled && !isKept) await this.#keep(signal);
      isKept ||= isSettled;
      await this.#advance(standing, signal);
    }
  }

  async #advance(standing: Standing, signal: AbortSignal): Promise<void> {
    if (standing === 'selected' || (standing === 'unsettled' && this.#wasSelected)) return this.#restart(signal);
    if (this.#wasSelected) {
      throw new McuError('board-runs-other', 'the board holds the image, but its bootloader started another one');
    }
    if (standing === 'held') return this.#select(signal);
    return standing === 'absent' || standing === 'unknown' ? this.#upload(signal) : this.#settle(signal);
  }

  /** Lets the bootloader end a trial, or finish a change of slots that was requested earlier. */
  async #settle(signal: AbortSignal): Promise<void> {
    if (uploadSession(this.#connection).select !== undefined) return this.#restart(signal);
    await this.#connection.leave(signal);
    throw new McuError('board-refused', 'another image is selected for the next start, which was now requested');
  }

  async #restart(signal: AbortSignal): Promise<void> {
    this.#restarts += 1;
    if (this.#restarts > maxRestarts) {
      throw new McuError('board-runs-other', 'the board does not finish a trial or a change of its slots');
    }
    await this.#connection.restart(signal);
    this.#isStarted = true;
  }

  async #keep(signal: AbortSignal): Promise<void> {
    const { expected, keep } = this.#request;
    const { running } = uploadSession(this.#connection);
    if (keep === undefined || running === undefined) return;
    const before = await this.#run((session) => session.running?.(expected), signal);
    if (before !== undefined) await keep(before, this.#connection.session.chip.name);
  }

  async #upload(signal: AbortSignal): Promise<void> {
    if (this.#uploads >= maxUploads) {
      throw new McuError('board-mismatch', 'the board does not hold the image that was sent');
    }
    const { image } = this.#request;
    await this.#request.beforeWriting();
    this.#uploads += 1;
    this.#isStarted = false;
    const onBytes = (doneBytes: number): void =>
      this.#report({ phase: 'writing', doneBytes, totalBytes: image.sizeBytes });
    await this.#run((session) => session.upload(image, onBytes), signal);
  }

  async #select(signal: AbortSignal): Promise<void> {
    const { image, toStay } = this.#request;
    await this.#request.beforeWriting();
    this.#wasSelected = true;
    this.#isStarted = false;
    await this.#run((session) => session.select?.(image, toStay === true), signal);
  }

  async #run<T>(
    turn: (session: UploadSession) => Conversation<T> | undefined,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    return this.#connection.run(function* take(session) {
      const conversation = turn(asUpload(session));
      return conversation === undefined ? undefined : yield* conversation;
    }, signal);
  }
}

export async function standingOf(connection: Connection, image: Image, signal: AbortSignal): Promise<Standing> {
  return connection.run((session) => asUpload(session).standing(image), signal);
}

function uploadSession(connection: Connection): UploadSession {
  return asUpload(connection.session);
}

function asUpload(session: Connection['session']): UploadSession {
  if (session.kind === 'upload') return session;
  throw new McuError('board-changed', 'another kind of bootloader answers now');
}
