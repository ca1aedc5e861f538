/** Values as written by hand in TOML. */

type Json = Readonly<Record<string, unknown>>;

export function assignment(key: string, value: unknown): string {
  return `${key} = ${key === 'address' && typeof value === 'number' ? hex(value) : tomlValue(value)}`;
}

function tomlValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(', ')}]`;
  if (isTable(value)) {
    const rows = Object.entries(value).map(([key, below]) => assignment(key, below));
    return rows.length === 0 ? '{}' : `{ ${rows.join(', ')} }`;
  }
  return JSON.stringify(value);
}

export function isTable(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `0x0800_0000` */
function hex(value: number): string {
  return `0x${value
    .toString(16)
    .padStart(8, '0')
    .replace(/^(.{4})/, '$1_')}`;
}

/** Comments of at most 120 characters a line. */
export function comment(mark: string, text: string): string {
  const lines: string[] = [];
  let line = mark;
  for (const word of ascii(text).split(' ')) {
    if (line !== mark && line.length + 1 + word.length > 120) {
      lines.push(line);
      line = mark;
    }
    line = `${line} ${word}`;
  }
  return `${[...lines, line].join('\n').replaceAll(hardSpace, ' ')}\n`;
}

const hardSpace = '\u00A0';

/** Text for a comment, which no end of a line divides. */
export function unbroken(text: string): string {
  return text.replaceAll(' ', hardSpace);
}

/** As every terminal shows it. */
function ascii(text: string): string {
  return text.replaceAll('’', "'").replaceAll('…', '...');
}
