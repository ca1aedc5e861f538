import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { replaceFileDurably } from '../system/files/durable-file.ts';

/** In addition to the first one, which stays as it is. */
const MAX_FURTHER = 8;

/**
 * Keeps the text of a configuration that is about to be replaced: the first as `config.toml.before`, further ones with
 * numbers that rise (`.before.2`), of which the oldest goes. Returns the path. Throws StorageError.
 */
export async function backUpConfig(config: string, text: string): Promise<string> {
  const [folder, first] = [dirname(config), `${basename(config)}.before`];
  const names = await readdir(folder);
  const numbers = names.flatMap((name) => (name.startsWith(`${first}.`) ? numberIn(name.slice(first.length + 1)) : []));
  const isFirst = numbers.length === 0 && !names.includes(first);
  const next = Math.max(1, ...numbers) + 1;
  const path = join(folder, isFirst ? first : `${first}.${next}`);
  await replaceFileDurably(path, text);
  for (const number of numbers) {
    if (number <= next - MAX_FURTHER) await rm(join(folder, `${first}.${number}`), { force: true });
  }
  return path;
}

function numberIn(text: string): readonly number[] {
  return /^[1-9]\d{0,8}$/.test(text) ? [Number(text)] : [];
}
