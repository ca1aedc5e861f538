import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { connect } from 'node:net';
import type { Socket } from 'node:net';

import { Link } from '../../../src/helper/link/link.ts';
import type { Answer, Served } from '../../../src/helper/link/link.ts';
import type { TrayPlace } from '../../../src/helper/link/tray.ts';

/** What the impostor answers; what is not here is answered with nothing. */
export type Answers = Readonly<Record<string, (served: Served) => Answer | Promise<Answer>>>;

/** A program in the agent's place, with its socket, that says what it likes. */
export class Impostor implements Disposable {
  readonly link: Link;
  readonly asked: string[] = [];
  readonly notes: { readonly topic: string; readonly content: unknown }[] = [];

  constructor(socket: Socket, answers: Answers = {}) {
    this.link = new Link(socket, {
      serve: async (served) => {
        this.asked.push(served.verb);
        return (await answers[served.verb]?.(served)) ?? { output: {} };
      },
      onNote: (topic, content) => this.notes.push({ topic, content }),
      lost: () => new Error('the helper hung up'),
    });
  }

  async say(verb: string, input: unknown = {}, body?: Uint8Array): Promise<unknown> {
    return (await this.link.call(verb, input, { body }, AbortSignal.timeout(60_000))).output;
  }

  /** The code that it is refused with, or what it was thrown. */
  async refusal(verb: string, input: unknown = {}, body?: Uint8Array): Promise<string> {
    try {
      return `done: ${JSON.stringify(await this.say(verb, input, body))}`;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      return 'code' in error && typeof error.code === 'string' ? error.code : error.message;
    }
  }

  [Symbol.dispose](): void {
    this.link.close();
  }
}

export async function reachSocket(path: string): Promise<Socket> {
  const socket = connect({ path });
  await once(socket, 'connect');
  return socket;
}

/** A firmware as the agent hands it over: each time that it is opened, the next of these. */
export function serving(...contents: readonly Uint8Array[]): Answers {
  const open = new Map<number, { readonly content: Uint8Array; position: number }>();
  let opened = 0;
  return {
    openFirmware: () => {
      const content = contents[Math.min(opened, contents.length - 1)] ?? new Uint8Array();
      open.set(opened, { content, position: 0 });
      opened += 1;
      return { output: { transfer: opened - 1, startOffset: 0, totalBytes: content.byteLength } };
    },
    readFirmware: ({ input }) => {
      const { transfer } = input as { readonly transfer: number };
      const found = open.get(transfer);
      if (found === undefined) return { output: {} };
      const body = found.content.subarray(found.position, found.position + 65_536);
      found.position += body.byteLength;
      return { output: {}, body: body.byteLength === 0 ? undefined : body };
    },
  };
}

/** The same through the tray, where each piece is overwritten with that of `after` while the helper may still read it. */
export function laying(tray: string, before: Uint8Array, after: Uint8Array): Answers {
  let position = 0;
  return {
    openFirmware: () => {
      position = 0;
      return { output: { transfer: 1, startOffset: 0, totalBytes: before.byteLength } };
    },
    readFirmware: async ({ input }) => {
      const { at } = (input as { readonly place: TrayPlace }).place;
      const [piece, other] = [before, after].map((content) => content.subarray(position, position + 65_536));
      position += 65_536;
      if (piece === undefined || other === undefined || piece.byteLength === 0) return { output: {} };
      const file = await open(tray, 'r+');
      await file.write(piece, 0, piece.byteLength, at);
      const overwrite = async (): Promise<void> => {
        await file.write(other, 0, other.byteLength, at);
        await file.close();
      };
      return { output: { laidBytes: piece.byteLength }, onSent: () => void overwrite() };
    },
  };
}
