import { spawn } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

import { built } from '../build.ts';
import { modemLines } from './modem-lines.ts';

const here = import.meta.dirname;

type Answers = readonly { readonly bytes: Uint8Array; readonly atMs: number }[];

/** A board behind a pty, in real time. Called for every message of ptylink. */
export interface EmulatedBoard {
  /** Bytes from the host; what is returned is sent at its time. */
  receive(byte: number, atMs: number): Answers;
  /** Baud rate, parity (N, E, O), data bits and stop bits. */
  settings?(baud: number, parity: string, dataBits: number): void;
  modem?(lines: { readonly dtr: boolean; readonly rts: boolean }, atMs: number): Answers;
}

/** How bad the wire is. */
export interface Wire {
  readonly latencyMs?: number | undefined;
  /** One byte to the board is lost out of this many. */
  readonly lossEvery?: number | undefined;
  /** For programs without ptymodem.so: a pty has no parity. */
  readonly parity?: 'even' | undefined;
}

/** A virtual USB-serial adapter (ptylink) with a model of a board behind it. */
export class EmulatedPort implements AsyncDisposable {
  readonly port: string;
  readonly #folder: string;
  readonly #board: EmulatedBoard;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  #received: Buffer = Buffer.alloc(0);
  #characterMs = 10_000 / 115_200;
  #lastByteMs = 0;
  #saying: Promise<void> = Promise.resolve();

  private constructor(folder: string, board: EmulatedBoard, child: ChildProcessByStdio<Writable, Readable, null>) {
    this.#folder = folder;
    this.#board = board;
    this.#child = child;
    this.port = join(folder, 'port');
    child.stdin.on('error', () => {});
    child.stdout.on('data', (chunk: Buffer) => this.#hear(chunk));
  }

  static async start(board: EmulatedBoard, { latencyMs = 0, lossEvery = 0, parity }: Wire = {}): Promise<EmulatedPort> {
    const source = join(here, 'ptylink.c');
    const program = await built('ptylink', [source], `gcc -O2 -Wall ${source} -o`);
    const folder = await mkdtemp(join(tmpdir(), 'board-'));
    const options = [
      '-l',
      join(folder, 'port'),
      '-c',
      join(folder, 'control'),
      '-u',
      `${latencyMs}`,
      '-d',
      `${lossEvery}`,
      ...(parity === 'even' ? ['-e'] : []),
    ];
    const child = spawn(program, options, { stdio: ['pipe', 'pipe', 'inherit'] });
    const port = new EmulatedPort(folder, board, child);
    await once(child.stdout, 'data');
    return port;
  }

  /** Gives a program modem lines and parity on this port. */
  async environment(): Promise<Record<string, string>> {
    return modemLines(this.port, join(this.#folder, 'control'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.signalCode === null && this.#child.exitCode === null) {
      const ended = once(this.#child, 'close');
      this.#child.kill('SIGKILL');
      await ended;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }

  #hear(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.byteLength >= 3) {
      const end = 3 + this.#received.readUInt16LE(1);
      if (this.#received.byteLength < end) return;
      this.#obey(String.fromCharCode(this.#received.readUInt8(0)), this.#received.subarray(3, end));
      this.#received = this.#received.subarray(end);
    }
  }

  #obey(kind: string, body: Buffer): void {
    const nowMs = performance.now();
    const [first = '', second = '', third = ''] = body.toString('latin1').split(' ');
    if (kind === 'T') {
      this.#characterMs = (second === 'N' ? 10_000 : 11_000) / Number(first);
      this.#board.settings?.(Number(first), second, Number(third));
    }
    if (kind === 'M') this.#say(this.#board.modem?.({ dtr: first === '1', rts: second === '1' }, nowMs) ?? []);
    if (kind === 'D') this.#deliver(body, nowMs);
  }

  /** Bytes that are heard of together came one after the other. */
  #deliver(bytes: Uint8Array, nowMs: number): void {
    for (const [index, byte] of bytes.entries()) {
      const atMs = nowMs - (bytes.byteLength - 1 - index) * this.#characterMs;
      this.#lastByteMs = Math.max(this.#lastByteMs + this.#characterMs, atMs);
      this.#say(this.#board.receive(byte, this.#lastByteMs));
    }
  }

  /** Sends one reply after another, never early: after a reply, the host may find the board ready. */
  #say(answers: Answers): void {
    for (const { bytes, atMs } of answers) this.#saying = this.#saying.then(async () => this.#sayAt(bytes, atMs));
  }

  async #sayAt(bytes: Uint8Array, atMs: number): Promise<void> {
    for (let waitMs = atMs - performance.now(); waitMs > 0; waitMs = atMs - performance.now()) {
      await (waitMs < 1 ? nextTurn() : sleep(Math.floor(waitMs)));
    }
    this.#child.stdin.write(
      Buffer.concat([Buffer.from([0x44, bytes.byteLength & 0xff, bytes.byteLength >> 8]), bytes]),
    );
  }
}
