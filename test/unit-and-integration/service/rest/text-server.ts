import { ServiceError } from '../../../../src/service/errors.ts';
import type { RequestText, TextReply } from '../../../../src/service/rest/firmware-download.ts';
import type { TextRange } from '../../../../src/service/rest/range-response.ts';

/** One reply to a request for the text. */
export interface Turn {
  /** The text as it is now, and its ETag. */
  readonly text: Buffer;
  readonly etag: string | undefined;
  readonly sendsLength: boolean;
  /** `wrong`: another part than the requested one. `careless`: ignores If-Range. `none`: 416. */
  readonly ranges: 'right' | 'ignored' | 'wrong' | 'careless' | 'none';
  /** Interrupts this reply after this number of bytes; -1: no reply; undefined if it is complete. */
  readonly cutAfter: number | undefined;
  readonly chunkBytes: number;
}

/** A service that sends one text, without a network: each request takes the next turn; the last one stays. */
export class TextServer {
  readonly requests: (TextRange | undefined)[] = [];
  openReplies = 0;
  readonly #turns: readonly Turn[];

  constructor(turns: readonly Turn[]) {
    this.#turns = turns;
  }

  readonly request: RequestText = async (range) => {
    const turn = this.#turns[Math.min(this.requests.length, this.#turns.length - 1)];
    this.requests.push(range);
    if (turn === undefined || turn.cutAfter === -1) throw cut();
    this.openReplies += 1;
    return this.#reply(turn, range);
  };

  #reply(turn: Turn, range: TextRange | undefined): TextReply {
    const { text, etag, sendsLength } = turn;
    const first = firstOf(turn, range);
    const last = text.byteLength - 1;
    const sent = text.subarray(first ?? 0);
    const headers: Record<string, string | undefined> = {
      etag,
      'content-length': sendsLength ? String(sent.byteLength) : undefined,
      'content-range': first === undefined ? undefined : `bytes ${first}-${last}/${text.byteLength}`,
    };
    const hasNone = first !== undefined && (turn.ranges === 'none' || first > last);
    return {
      status: first === undefined ? 200 : hasNone ? 416 : 206,
      header: (name) => headers[name],
      chunks: () => chunksOf(sent, turn),
      [Symbol.asyncDispose]: async () => {
        this.openReplies -= 1;
      },
    };
  }
}

/** Returns the beginning of the part, or undefined for the whole text. */
function firstOf({ ranges, etag }: Turn, range: TextRange | undefined): number | undefined {
  if (range === undefined || ranges === 'ignored') return undefined;
  if (range.validator !== etag && ranges !== 'careless') return undefined;
  return ranges === 'wrong' ? range.offset + 1 : range.offset;
}

async function* chunksOf(bytes: Buffer, { cutAfter = Infinity, chunkBytes }: Turn): AsyncGenerator<Uint8Array> {
  const end = Math.min(cutAfter, bytes.byteLength);
  for (let offset = 0; offset < end; offset += chunkBytes)
    yield bytes.subarray(offset, Math.min(offset + chunkBytes, end));
  if (cutAfter < bytes.byteLength) throw cut();
}

function cut(): ServiceError {
  return new ServiceError({ code: 'connection-reset', why: 'the connection was cut' });
}
