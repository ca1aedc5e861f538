import assert from 'node:assert';

import { AgentError } from '../../../../src/system/errors.ts';
import type {
  BoardPayload,
  ImageClaims,
  KeptForBoard,
  McuTarget,
  PayloadOpening,
  PayloadWriter,
  Verified,
  WrittenPrefix,
} from '../../../../src/update/ports.ts';
import type { Power } from '../power.ts';
import { sha256 } from './memory-slots.ts';

const PAGE = 6;
const PARKED = '(parked)';

/** State that survives a power loss: the chip's memory and its directory. */
export interface BoardMemory {
  readonly running: string;
  readonly payload: string;
  /** Default: a board. A package is backed up, installed and restored in the same way. */
  readonly kind?: 'mcu' | 'package' | undefined;
  /** The durable part of an interrupted transfer. */
  readonly partial?: string | undefined;
  readonly kept: Kept | undefined;
  /** The digest of the payload that was flashed last, and not undone; undefined while it is written. */
  readonly onBoard?: string | undefined;
  /** Payload and backup of the installed version, while another payload is on trial. */
  readonly aside?: { readonly payload?: string | undefined; readonly kept?: Kept | undefined } | undefined;
}

interface Kept {
  readonly payload: string;
  readonly image: string;
  /** The digest of the payload that this image belongs to. */
  readonly over?: string | undefined;
}

/**
 * A board and its directory in the state directory. It is in its bootloader while it is being flashed, and stays there
 * after a power loss. The backup is durable as soon as it is written.
 */
export class MemoryBoard implements Omit<McuTarget, 'kind'> {
  readonly kind: 'mcu' | 'package';
  readonly name: string;
  port: string;
  readonly #power: Power;
  #payload: string;
  #partial: string | undefined;
  #kept: BoardMemory['kept'];
  #onBoard: string | undefined;
  #aside: NonNullable<BoardMemory['aside']>;
  /** The program that the chip would run. */
  running: string;
  /** Number of later flash operations that fail in the middle. */
  failures = 0;
  onFailure: () => void = () => {};
  /** Makes everything fail. */
  unplugged = false;
  /** Asked before each page but the first. */
  trouble: () => boolean = () => false;
  /** One line for each completed flash operation. */
  readonly flashed: string[] = [];

  constructor(
    name: string,
    image: string,
    power: Power,
    { payload, partial, kept, onBoard, aside = {}, kind = 'mcu' }: Partial<BoardMemory> = {},
  ) {
    this.name = name;
    this.kind = kind;
    this.port = `/dev/${name}`;
    this.running = image;
    this.#power = power;
    this.#payload = payload ?? '';
    this.#partial = partial;
    this.#kept = kept;
    this.#onBoard = onBoard;
    this.#aside = aside;
  }

  get memory(): BoardMemory {
    const [payload, partial, kept, onBoard, aside] = [
      this.#payload,
      this.#partial,
      this.#kept,
      this.#onBoard,
      this.#aside,
    ];
    return { kind: this.kind, running: this.running, payload, partial, kept, onBoard, aside };
  }

  async openFile({ resumeAt }: PayloadOpening): Promise<PayloadWriter> {
    let bytes = resumeAt === undefined ? Buffer.alloc(0) : this.#findPrefix(resumeAt);
    this.#partial = undefined;
    return {
      write: (chunk: Uint8Array) => {
        bytes = Buffer.concat([bytes, chunk]);
        return undefined;
      },
      checkpoint: async () => {
        this.#power.step(`${this.name}: keep a part of the payload`);
        this.#partial = bytes.toString('latin1');
        return { sizeBytes: bytes.length, digest: sha256(bytes) };
      },
      finish: async () => {
        if (this.#onBoard !== undefined && digestOf(this.#payload) === this.#onBoard) {
          this.#power.step(`${this.name}: set the payload aside`);
          this.#aside = { ...this.#aside, payload: this.#payload };
          this.#payload = '';
        }
        this.#power.step(`${this.name}: keep the payload`);
        this.#partial = undefined;
        this.#payload = bytes.toString('latin1');
        return { sizeBytes: bytes.length, digest: sha256(bytes), unchangedBytes: 0, ...claimsIn(this.#payload) };
      },
      [Symbol.asyncDispose]: async () => {},
    };
  }

  #findPrefix({ sizeBytes, digest }: WrittenPrefix): Buffer<ArrayBuffer> {
    for (const kept of [this.#partial ?? '', this.#payload]) {
      const bytes = Buffer.from(kept.slice(0, sizeBytes), 'latin1');
      if (sha256(bytes) === digest) return bytes;
    }
    throw gone(this.name, 'payload-stale');
  }

  async digestOf(sizeBytes: number, _signal: AbortSignal, digest: string): Promise<string> {
    return digestOf((this.#find(digest) ?? this.#payload).slice(0, sizeBytes));
  }

  #find(digest: string): string | undefined {
    return [this.#payload, this.#aside.payload ?? ''].find((payload) => digestOf(payload) === digest);
  }

  async flash({ digest }: BoardPayload, evidence: Verified): Promise<void> {
    assert(evidence.digest === digest, `the evidence is of ${evidence.digest}, and not of ${digest}`);
    const payload = this.#find(digest);
    assert(payload !== undefined, `${this.name}: ${digest} is not kept`);
    this.#settle();
    if (this.#kept?.payload !== digest) {
      if (this.#kept !== undefined && this.#kept.payload === this.#onBoard) {
        this.#power.step(`${this.name}: set the backup aside`);
        this.#aside = { ...this.#aside, kept: this.#kept };
        this.#kept = undefined;
      }
      this.#power.step(`${this.name}: keep what was there`);
      this.#kept = { payload: digest, image: this.running, over: this.#onBoard };
    }
    this.#write(payload, digest);
  }

  async restore({ digest }: BoardPayload): Promise<void> {
    this.#settle();
    if (this.#kept?.payload === digest) this.#write(this.#kept.image, this.#kept.over);
  }

  /** If a flash never began, or was undone, the backup that was set aside takes the place of its backup. */
  #settle(): void {
    const { kept, payload } = this.#aside;
    if (this.#onBoard === undefined || this.#kept?.payload === this.#onBoard) return;
    if (kept?.payload !== this.#onBoard) return;
    this.#power.step(`${this.name}: return to the backup set aside`);
    this.#kept = kept;
    this.#aside = { payload };
  }

  /** Its folder is lost. */
  forget(): void {
    this.#kept = undefined;
    this.#aside = {};
    this.#payload = '';
  }

  async holds(digest: string): Promise<boolean> {
    return this.#onBoard === digest;
  }

  async keeps(digest: string): Promise<KeptForBoard> {
    this.#settle();
    return { payload: this.#find(digest) !== undefined, before: this.#kept?.payload === digest };
  }

  #write(image: string, onBoard: string | undefined): void {
    if (this.unplugged) throw gone(this.name, 'port-missing');
    if (this.running !== image) this.#writePages(image);
    this.#onBoard = onBoard;
  }

  #writePages(image: string): void {
    this.#onBoard = undefined;
    this.running = PARKED;
    for (let at = 0; at < image.length; at += PAGE) {
      this.#power.step(`${this.name}: flash page ${at / PAGE}`);
      if (at > 0 && this.trouble()) throw gone(this.name, 'board-timeout');
      if (this.failures > 0 && at > 0) {
        this.failures -= 1;
        this.onFailure();
        throw gone(this.name, 'board-timeout');
      }
    }
    this.running = image;
    this.flashed.push(image);
    this.#power.step(`${this.name}: started`);
  }
}

function digestOf(payload: string): string {
  return sha256(Buffer.from(payload, 'latin1'));
}

function gone(board: string, code: string): AgentError {
  return new AgentError({ code, message: `${board} does not answer`, remedy: 'retry', exit: 'disk' });
}

/** Text such as `counter 4` or `version 1.2.3` represents a MCUboot image with that claim. */
function claimsIn(program: string): ImageClaims {
  const [, counter] = /counter (\d+)/.exec(program) ?? [];
  const [, imageVersion] = /version ([\d.]+)/.exec(program) ?? [];
  return { securityCounter: counter === undefined ? undefined : Number(counter), imageVersion };
}
