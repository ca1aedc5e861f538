import type { Variables } from '../variables/variable-environment.ts';

/**
 * The environment block of GRUB (GRUB manual, "The GRUB environment block"; grub-core/lib/envblk.c): 1024 bytes that
 * hold a heading, lines `name=value`, and `#` as padding. Each backslash or line end in a value is escaped with a
 * backslash.
 */
export const BLOCK_BYTES = 1024;
/** The unit that a medium writes entirely or not at all. */
export const SECTOR_BYTES = 512;

const HEADING = '# GRUB Environment Block\n';
/** Matches up to the first line end without a backslash before it. */
const LINE = /(?:[^\\\n]|\\[^])*\n/y;

interface Line {
  readonly text: string;
  /** Omitted if the line is a remark, or GRUB does not read it as a variable. */
  readonly name: string | undefined;
}

/** Returns the variables of a block, or undefined if GRUB would call it an invalid environment block. */
export function parseBlock(block: Buffer): Variables | undefined {
  const lines = linesOf(block);
  if (lines === undefined) return undefined;
  const variables = new Map<string, string>();
  for (const { text, name } of lines) {
    if (name !== undefined) variables.set(name, unescaped(text.slice(name.length + 1, -1)));
  }
  return variables;
}

/** Returns the block with these variables changed in place, or undefined if it is invalid, or has no room. */
export function withVariables(block: Buffer, variables: Variables): Buffer | undefined {
  const lines = linesOf(block);
  if (lines === undefined) return undefined;
  const missing = new Map(variables);
  const texts = lines.map(({ text, name }) => {
    if (name === undefined || !variables.has(name)) return text;
    const value = missing.get(name);
    missing.delete(name);
    return value === undefined ? '' : lineOf(name, value);
  });
  for (const [name, value] of missing) texts.push(lineOf(name, value));
  const content = HEADING + texts.join('');
  if (content.length > BLOCK_BYTES) return undefined;
  return Buffer.from(content.padEnd(BLOCK_BYTES, '#'), 'latin1');
}

/** The numbers of the sectors in which two blocks differ; all of them if there was no block before. */
export function changedSectors(before: Buffer | undefined, after: Buffer): readonly number[] {
  const sectors = Array.from({ length: BLOCK_BYTES / SECTOR_BYTES }, (_, sector) => sector);
  if (before === undefined) return sectors;
  return sectors.filter((sector) => !sectorOf(before, sector).equals(sectorOf(after, sector)));
}

export function sectorOf(block: Buffer, sector: number): Buffer {
  return block.subarray(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
}

/** The lines behind the heading, as bytes and not as characters. */
function linesOf(block: Buffer): readonly Line[] | undefined {
  const text = block.toString('latin1');
  if (block.byteLength !== BLOCK_BYTES || !text.startsWith(HEADING)) return undefined;
  const lines: Line[] = [];
  let end = HEADING.length;
  for (;;) {
    LINE.lastIndex = end;
    const line = LINE.exec(text)?.[0];
    if (line === undefined) break;
    lines.push({ text: line, name: /^([^#=\s][^=\s]*)=/.exec(line)?.[1] });
    end += line.length;
  }
  return /^#*$/.test(text.slice(end)) ? lines : undefined;
}

function lineOf(name: string, value: string): string {
  return `${name}=${value.replaceAll(/[\\\n]/g, String.raw`\$&`)}\n`;
}

function unescaped(value: string): string {
  return value.replaceAll(/\\([^])/g, '$1');
}
