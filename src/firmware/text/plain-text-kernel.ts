import type { TextKernel, Unescaped } from './text-kernel.ts';

/** The end of the characters: a quotation mark, or an escape that is incomplete, or not allowed in encoded firmware. */
const STOP = /"|\\(?![/nrt]|u00(?:09|0[aAdD]|[2-6][0-9a-fA-F]|7[0-9a-eA-E]))/;
/** White space, which is left out, and escapes. */
const CHANGED = /\\u00(..)|\\(\/)| |\\[nrt]/g;

/** A text kernel without WebAssembly. */
export class PlainTextKernel implements TextKernel {
  unescape(unfinished: Uint8Array, slice: Uint8Array): Unescaped {
    const input = Buffer.concat([unfinished, slice]);
    const text = input.toString('latin1');
    const stop = text.search(STOP);
    const stoppedAt = stop === -1 ? text.length : stop;
    const characters = text
      .slice(0, stoppedAt)
      .replaceAll(CHANGED, (_, digits: string | undefined, slash: string | undefined) =>
        digits === undefined ? (slash ?? '') : String.fromCharCode(Number.parseInt(digits, 16)).trim(),
      );
    return { text: Buffer.from(characters, 'latin1'), input, stoppedAt };
  }
}
