/**
 * Characters that steer a terminal or hide in a text: control characters (C0, DEL, C1), marks that turn the writing
 * direction, invisible characters (DI: fillers, variation selectors), line separators, halves of surrogate pairs.
 */
export const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu;

/** A text from outside with every unprintable character escaped: `\x1b`, `\u{202e}`. */
export function printable(text: string): string {
  return text.replaceAll(unprintable, escaped);
}

function escaped(character: string): string {
  if (character === '\n') return '\\n';
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return code < 0x100 ? `\\x${hex.padStart(2, '0')}` : `\\u{${hex}}`;
}

/** JSON on one line, or indented, with the same characters escaped as JSON escapes them. */
export function printableJson(value: unknown, indent?: number): string {
  return escapedJson(JSON.stringify(value, undefined, indent) ?? 'null');
}

/** A text in JSON with the same characters escaped. */
export function escapedJson(text: string): string {
  return text.replaceAll(unprintable, (character) => (character === '\n' ? character : jsonEscaped(character)));
}

function jsonEscaped(character: string): string {
  return Array.from({ length: character.length }, (_, index) => {
    const hex = character.charCodeAt(index).toString(16);
    return `\\u${hex.padStart(4, '0')}`;
  }).join('');
}

/** The number of columns that a text needs at most; characters that may be wide count as wide. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += characterWidth(character);
  return width;
}

/** Returns the longest beginning that fits into `columns`. */
export function fitting(text: string, columns: number): string {
  let width = 0;
  let end = 0;
  for (const character of text) {
    width += characterWidth(character);
    if (width > columns) break;
    end += character.length;
  }
  return text.slice(0, end);
}

function characterWidth(character: string): number {
  return (character.codePointAt(0) ?? 0) < 0x1100 ? 1 : 2;
}
