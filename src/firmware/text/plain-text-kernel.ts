import type { TextKernel, Unescaped } from './text-kernel.ts';

const QUOTE = 0x22;
const SPACE = 0x20;
const BACKSLASH = 0x5c;
const shortEscapes: Readonly<Record<string, number>> = { '/': 0x2f, n: SPACE, r: SPACE, t: SPACE };

interface Escape {
  /** A space stands for any white space. */
  readonly character: number;
  readonly length: number;
}

/** A text kernel without WebAssembly, which takes one character after the other. */
export class PlainTextKernel implements TextKernel {
  unescape(unfinished: Uint8Array, slice: Uint8Array): Unescaped {
    const input = Buffer.concat([unfinished, slice]);
    const text = Buffer.allocUnsafe(input.length);
    let written = 0;
    let at = 0;
    while (at < input.length && input[at] !== QUOTE) {
      const plain = input[at] ?? 0;
      const escape = plain === BACKSLASH ? escapeAt(input, at) : { character: plain, length: 1 };
      if (escape === undefined) break;
      at += escape.length;
      if (escape.character === SPACE) continue;
      text[written] = escape.character;
      written += 1;
    }
    return { text: text.subarray(0, written), input, stoppedAt: at };
  }
}

/** Returns the escape at this index, or undefined if it is incomplete, or not allowed in encoded firmware. */
function escapeAt(input: Buffer, at: number): Escape | undefined {
  const letter = input.toString('latin1', at + 1, at + 2);
  const short = shortEscapes[letter];
  if (short !== undefined) return { character: short, length: 2 };
  const digits = /^u00([0-9a-fA-F]{2})$/.exec(input.toString('latin1', at + 1, at + 6))?.[1];
  if (digits === undefined) return undefined;
  const character = Number.parseInt(digits, 16);
  if (character > 0x7e) return undefined;
  if (character >= SPACE) return { character, length: 6 };
  return /[\t\n\r]/.test(String.fromCharCode(character)) ? { character: SPACE, length: 6 } : undefined;
}
