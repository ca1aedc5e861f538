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
  readonly kept: { readonly payload: string; readonly image: string } | undefined;
}

/**
 * A board and its directory in the state directory. It is in its bootloader while it is being flashed, and stays there
 * after a power loss. The backup is durable as soon as it is written.
 */
export class MemoryBoard implements Omit<McuTarget, 'kind'> {
  readonly kind: 'mcu' | 'package';
  readonly name: string;
  readonly #power: Power;
  #payload: string;
  #partial: string | undefined;
  #kept: BoardMemory['kept'];
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
    { payload, partial, kept, kind = 'mcu' }: Partial<BoardMemory> = {},
  ) {
    this.name = name;
    this.kind = kind;
    this.running = image;
    this.#power = power;
    this.#payload = payload ?? '';
    this.#partial = partial;
    this.#kept = kept;
  }

  get memory(): BoardMemory {
    return { kind: this.kind, running: this.running, payload: this.#payload, partial: this.#partial, kept: this.#kept };
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

  async digestOf(sizeBytes: number): Promise<string> {
    return sha256(Buffer.from(this.#payload.slice(0, sizeBytes), 'latin1'));
  }

  async flash({ digest }: BoardPayload, evidence: Verified): Promise<void> {
    assert(evidence.digest === digest, `the evidence is of ${evidence.digest}, and not of ${digest}`);
    if (this.#kept?.payload !== digest) {
      this.#power.step(`${this.name}: keep what was there`);
      this.#kept = { payload: digest, image: this.running };
    }
    this.#write(this.#payload);
  }

  async restore({ digest }: BoardPayload): Promise<void> {
    if (this.#kept?.payload === digest) this.#write(this.#kept.image);
  }

  /** Its folder is lost. */
  forget(): void {
    this.#kept = undefined;
    this.#payload = '';
  }

  async keeps(digest: string): Promise<KeptForBoard> {
    return { payload: sha256(Buffer.from(this.#payload, 'latin1')) === digest, before: this.#kept?.payload === digest };
  }

  #write(image: string): void {
    if (this.unplugged) throw gone(this.name, 'port-missing');
    if (this.running === image) return;
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

function gone(board: string, code: string): AgentError {
  return new AgentError({ code, message: `${board} does not answer`, remedy: 'retry', exit: 'disk' });
}

/** Text such as `counter 4` or `version 1.2.3` represents a MCUboot image with that claim. */
function claimsIn(program: string): ImageClaims {
  const [, counter] = /counter (\d+)/.exec(program) ?? [];
  const [, imageVersion] = /version ([\d.]+)/.exec(program) ?? [];
  return { securityCounter: counter === undefined ? undefined : Number(counter), imageVersion };
}
