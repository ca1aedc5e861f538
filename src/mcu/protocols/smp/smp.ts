import { isBoardError, McuError } from '../../errors.ts';
import type { Image } from '../../images/image.ts';
import { attempt, discard, persist, unknownChip } from '../../protocol.ts';
import type { Conversation, Exchange, Protocol, Standing, UploadSession } from '../../protocol.ts';
import { encodeCbor } from '../cbor.ts';
import type { CborMap } from '../cbor.ts';
import { startedByReset } from '../reset-pulse.ts';
import { consoleFraming, mapIn, rawFraming } from './smp-frames.ts';
import type { SmpFraming } from './smp-frames.ts';
import { describeSlot, fileOf, imageNamed, runningSlot, slotsIn, standingOf, wantedOf } from './smp-slots.ts';
import type { Slot } from './smp-slots.ts';

export interface SmpSettings {
  readonly framing?: 'console' | 'raw' | undefined;
  /** The number of the image whose slots are written. */
  readonly image?: number | undefined;
  /** Keeps an uploaded image without a trial. Serial recovery always does. */
  readonly confirm?: boolean | undefined;
}

/** Source: Zephyr, "SMP Protocol Specification" and its management groups. */
const operation = { read: 0, write: 2 } as const;
const osGroup = 0;
const imageGroup = 1;
const os = { echoControl: 1, reset: 5, parameters: 6 } as const;
const image = { state: 0, upload: 1, slotInfo: 6 } as const;

/** The message size for a server that does not state one: MCUboot's smallest configuration. */
const defaultBufferBytes = 256;
/** The header, map and keys of an upload message around its data. */
const uploadOverheadBytes = 8 + 40;
/** MCUboot programs flash in pieces of this size; of other chunks it accepts less. */
const chunkGrain = 16;
/** The first chunk may erase the whole slot: about 90 ms for each 4 KiB. */
const eraseSlotMs = 30_000;
const chunkWorkMs = 300;
const maxFirstTries = 2;
const maxTries = 8;
/** With raw framing, only a reset restores the step. */
const maxRawTries = 2;
const maxConnects = 3;
const maxWindow = 2;
const maxLateAnswers = 4;

/** A protocol for MCUboot's serial recovery, and for every other SMP server with the image group. */
export function smp(settings: SmpSettings = {}): Protocol {
  return startedByReset('smp', () => new Smp(settings).connect());
}

class Smp {
  readonly #framing: SmpFraming;
  readonly #image: number;
  readonly #confirm: boolean;
  readonly #maxTries: number;
  #isRecovery = false;
  #sequence = 0;
  #chunkBytes = defaultBufferBytes - uploadOverheadBytes;
  #window = 1;

  constructor({ framing, image: number, confirm }: SmpSettings) {
    this.#image = number ?? 0;
    this.#framing = framing === 'raw' ? rawFraming : consoleFraming;
    this.#maxTries = framing === 'raw' ? maxRawTries : maxTries;
    this.#confirm = confirm ?? false;
  }

  *connect(): Conversation<UploadSession> {
    const list = yield* this.#greet();
    yield* this.#askParameters();
    this.#isRecovery = yield* this.#isSerialRecovery(list);
    if (this.#image > 0) yield* this.#requireImage(slotsIn(list));
    return {
      kind: 'upload',
      chip: unknownChip('MCUboot', 'mcuboot'),
      boots: () => this.#boots(),
      standing: (wanted) => this.#standing(wanted),
      running: (expected) => this.#running(expected),
      upload: (wanted, onProgress) => this.#upload(wanted, onProgress),
      select: this.#isRecovery ? undefined : (wanted, toStay) => this.#select(wanted, toStay),
      resume: () => this.#resume(),
      start: () => this.#reset(),
    };
  }

  #greet(): Conversation<CborMap> {
    return persist(() => this.#list(), maxConnects);
  }

  /**
   * Gets back in step. With raw framing that is impossible: a server that waits for the rest of a message cannot learn
   * where the next one begins.
   */
  *#resume(): Conversation<void> {
    if (this.#framing === rawFraming) throw new McuError('board-timeout', 'a message was damaged');
    yield* this.#greet();
  }

  /** Image management group, 0: the content of the slots. */
  #list(): Conversation<CborMap> {
    return this.#ask(operation.read, imageGroup, image.state, {});
  }

  *#slots(): Conversation<readonly Slot[]> {
    return slotsIn(yield* this.#list()).filter((slot) => (slot.image ?? 0) === this.#image);
  }

  /**
   * True for MCUboot's serial recovery, which receives into the slot that starts. Its lists have no `splitStatus`, and
   * unlike the servers of Zephyr it accepts the command that switches the echo of a console.
   */
  *#isSerialRecovery(list: CborMap): Conversation<boolean> {
    if ('splitStatus' in list) return false;
    return (yield* this.#ifKnown(this.#ask(operation.write, osGroup, os.echoControl, { echo: 0 }))) !== undefined;
  }

  /** Refuses a server on which an upload with this image number would reach another image. */
  *#requireImage(slots: readonly Slot[]): Conversation<void> {
    const cannot = (why: string): McuError =>
      new McuError('board-unsupported', `this SMP server ${why}`, { advice: 'check `smp.image` of this target' });
    if (slots.length > 0 && slots.every((slot) => slot.image === undefined)) {
      throw cannot(`has only one image, and no image ${this.#image}`);
    }
    const info = yield* this.#ifKnown(this.#ask(operation.read, imageGroup, image.slotInfo, {}));
    if (info !== undefined && JSON.stringify(info).includes('"upload_image_id"')) {
      throw cannot('numbers uploads by slot, so that image numbers above 0 mean something else to it');
    }
  }

  *#standing(wanted: Image): Conversation<Standing> {
    const standing = standingOf(wantedOf(wanted), yield* this.#slots(), this.#isRecovery);
    // refuses to upload what has no file before the board is changed
    if (standing === 'absent') fileOf(wanted);
    return standing;
  }

  *#boots(): Conversation<string | undefined> {
    const slot = runningSlot(yield* this.#slots());
    return slot === undefined ? undefined : describeSlot(slot);
  }

  *#running(expected?: Image): Conversation<Image | undefined> {
    const hash = runningSlot(yield* this.#slots())?.hash;
    if (expected?.format === 'mcuboot' && wantedOf(expected).hash === hash) return expected;
    // what serial recovery receives replaces the image that runs
    return hash === undefined || this.#isRecovery ? undefined : imageNamed(hash);
  }

  /** Image management group, 0: a trial or, with `confirm`, for good. Asks first, since a repetition is refused. */
  *#select(wanted: Image, toStay: boolean): Conversation<void> {
    if ((yield* this.#standing(wanted)) !== 'held') return;
    const hash = Buffer.from(wantedOf(wanted).hash, 'hex');
    yield* this.#ask(operation.write, imageGroup, image.state, { hash, confirm: toStay || this.#confirm });
  }

  /**
   * Returns the result of a conversation, or undefined if the server refuses it, for example because it lacks the
   * command.
   */
  *#ifKnown<T>(conversation: Conversation<T>): Conversation<T | undefined> {
    try {
      return yield* conversation;
    } catch (error) {
      if (isBoardError(error) && error.code === 'board-refused') return undefined;
      throw error;
    }
  }

  /** OS management group, 6: the largest message. Older servers lack this command. */
  *#askParameters(): Conversation<void> {
    const answer = yield* this.#ifKnown(this.#ask(operation.read, osGroup, os.parameters, {}));
    const bufferBytes = answer?.['buf_size'];
    if (typeof bufferBytes === 'number') this.#chunkBytes = bufferBytes - 4 - uploadOverheadBytes;
    this.#chunkBytes = Math.max(chunkGrain, Math.floor(this.#chunkBytes / chunkGrain) * chunkGrain);
  }

  /**
   * Image management group, 1. The server answers every chunk, even one that it rejects, with the offset that it
   * expects next. So the upload continues at that offset after a lost answer, a lost chunk or an interruption.
   */
  *#upload(wanted: Image, onProgress: (doneBytes: number) => void): Conversation<void> {
    const file = fileOf(wanted);
    const underWay: number[] = [];
    let done = 0;
    let sent = 0;
    let furthest = 0;
    for (let failures = 0; done < file.byteLength;) {
      const fresh: Uint8Array[] = [];
      for (; underWay.length < this.#window && sent < file.byteLength; sent += this.#chunkBytes) {
        const { bytes, sequence } = this.#chunk(file, sent);
        fresh.push(bytes);
        underWay.push(sequence);
      }
      const expected = Math.min(file.byteLength, done + this.#chunkBytes);
      const next = yield* this.#oldestAnswer(fresh, underWay, done === 0);
      if (next === expected) {
        // the first chunk, which erases, was answered: from now on two may be pending
        if (done === 0) this.#window = maxWindow;
        if (next > furthest) failures = 0; // a server that falls back again and again gets no further
        furthest = Math.max(furthest, next);
      } else {
        if (next === undefined) this.#window = 1;
        failures += 1;
        if (failures >= (done === 0 ? maxFirstTries : this.#maxTries))
          throw new McuError('board-timeout', `the chunk at ${done} is not taken`);
        yield* discard();
        underWay.length = 0;
        sent = Math.min(next ?? done, file.byteLength);
      }
      done = Math.min(next ?? done, file.byteLength);
      onProgress(done);
    }
  }

  /** Sends new chunks, and returns the answer to the oldest pending one: the next offset, if the answer is whole. */
  *#oldestAnswer(fresh: readonly Uint8Array[], underWay: number[], erases: boolean): Conversation<number | undefined> {
    const pipelined = underWay.length > fresh.length;
    const sequence = underWay.shift() ?? 0;
    const workMs = erases ? eraseSlotMs : chunkWorkMs;
    const { answer } = yield* this.#answerTo(sequence, { send: Buffer.concat(fresh), workMs, pipelined });
    if (answer === undefined) return undefined;
    requireOk(answer);
    return typeof answer['off'] === 'number' ? answer['off'] : undefined;
  }

  #chunk(file: Uint8Array, offset: number): { readonly bytes: Uint8Array; readonly sequence: number } {
    const data = file.subarray(offset, offset + this.#chunkBytes);
    const first: CborMap = { ...(this.#image > 0 && { image: this.#image }), len: file.byteLength };
    const body: CborMap = { ...(offset === 0 && first), off: offset, data };
    return this.#message(operation.write, imageGroup, image.upload, body);
  }

  /** OS management group, 5. The reset may cut its answer. */
  *#reset(): Conversation<void> {
    const { bytes } = this.#message(operation.write, osGroup, os.reset, {});
    yield* attempt(bytes, this.#framing.answer);
  }

  *#ask(kind: number, group: number, command: number, body: CborMap): Conversation<CborMap> {
    const { bytes, sequence } = this.#message(kind, group, command, body);
    const turn = { send: bytes, workMs: chunkWorkMs, pipelined: false };
    const { answer, heard } = yield* this.#answerTo(sequence, turn);
    if (answer !== undefined) {
      requireOk(answer);
      return answer;
    }
    if (!heard) throw new McuError('board-timeout', 'no SMP server answers');
    throw new McuError('board-bad-response', 'the answer of the SMP server is damaged');
  }

  /** Sends something, and waits for the answer to one message. Late answers to others are skipped. */
  *#answerTo(
    sequence: number,
    turn: Pick<Exchange, 'send' | 'workMs' | 'pipelined'>,
  ): Conversation<{ readonly answer: CborMap | undefined; readonly heard: boolean }> {
    let reply = yield { kind: 'exchange', answer: this.#framing.answer, ...turn };
    for (let late = 0; late < maxLateAnswers; late += 1) {
      const message = reply.whole ? this.#framing.decode(reply.bytes) : undefined;
      if (message === undefined) break;
      if (message.sequence === sequence) return { answer: mapIn(message.body), heard: true };
      const listen = { ...turn, send: new Uint8Array(), pipelined: true };
      reply = yield { kind: 'exchange', answer: this.#framing.answer, ...listen };
    }
    return { answer: undefined, heard: reply.bytes.byteLength > 0 };
  }

  #message(kind: number, group: number, command: number, body: CborMap): { bytes: Uint8Array; sequence: number } {
    this.#sequence = (this.#sequence + 1) & 0xff;
    const message = { operation: kind, group, command, sequence: this.#sequence, body: encodeCbor(body) };
    return { bytes: this.#framing.encode(message), sequence: this.#sequence };
  }
}

/** "Return codes": 8 is an unknown command. */
function requireOk({ rc }: CborMap): void {
  if (rc === undefined || rc === 0) return;
  throw new McuError('board-refused', `the SMP server refuses with code ${typeof rc === 'number' ? rc : 'unknown'}`);
}
