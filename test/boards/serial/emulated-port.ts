import { spawn } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

import { built } from '../build.ts';

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
  /** Of so many bytes to the board one is lost. */
  readonly lossEvery?: number | undefined;
}

/** A virtual USB-serial adapter (ptylink) with a model of a board behind it. */
export class EmulatedPort implements AsyncDisposable {
  readonly port: string;
  readonly #folder: string;
  readonly #board: EmulatedBoard;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  #received: Buffer = Buffer.alloc(0);

  private constructor(folder: string, board: EmulatedBoard, child: ChildProcessByStdio<Writable, Readable, null>) {
    this.#folder = folder;
    this.#board = board;
    this.#child = child;
    this.port = join(folder, 'port');
    child.stdin.on('error', () => {});
    child.stdout.on('data', (chunk: Buffer) => this.#hear(chunk));
  }

  static async start(board: EmulatedBoard, { latencyMs = 0, lossEvery = 0 }: Wire = {}): Promise<EmulatedPort> {
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
    ];
    const child = spawn(program, options, { stdio: ['pipe', 'pipe', 'inherit'] });
    const port = new EmulatedPort(folder, board, child);
    await once(child.stdout, 'data');
    return port;
  }

  /** Gives a program modem lines and parity on this port. */
  async environment(): Promise<Record<string, string>> {
    const source = join(here, 'ptymodem.c');
    const library = await built('ptymodem.so', [source], `gcc -O2 -Wall -shared -fPIC ${source} -ldl -o`);
    return { LD_PRELOAD: library, PTYMODEM: `${this.port}=${join(this.#folder, 'control')}` };
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
    if (kind === 'T') this.#board.settings?.(Number(first), second, Number(third));
    if (kind === 'M') this.#say(this.#board.modem?.({ dtr: first === '1', rts: second === '1' }, nowMs) ?? []);
    if (kind === 'D') for (const byte of body) this.#say(this.#board.receive(byte, nowMs));
  }

  #say(answers: Answers): void {
    for (const { bytes, atMs } of answers) this.#sayAt(bytes, atMs);
  }

  #sayAt(bytes: Uint8Array, atMs: number): void {
    const head = Buffer.from([0x44, bytes.byteLength & 0xff, bytes.byteLength >> 8]);
    const say = (): void => void this.#child.stdin.write(Buffer.concat([head, bytes]));
    const waitMs = atMs - performance.now();
    if (waitMs < 1) say();
    else setTimeout(say, waitMs);
  }
}
