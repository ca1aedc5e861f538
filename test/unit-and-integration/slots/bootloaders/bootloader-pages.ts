import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '../../../../docs/bootloaders');
const pages = globSync('*.md', { cwd: folder }).map((name) => readFileSync(join(folder, name), 'utf8'));

/** Returns a script or a file of the pages for integrators, by the label of its block: the tests use its actual text. */
export function bootloaderBlock(label: string): string {
  const block = new RegExp(`^\`\`\`${label}\\n(.*?)^\`\`\``, 'ms').exec(pages.join('\n'))?.[1];
  if (block === undefined) throw new Error(`docs/bootloaders has no block ${label}`);
  return block;
}
