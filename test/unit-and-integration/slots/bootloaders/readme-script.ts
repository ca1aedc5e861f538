import { readFileSync } from 'node:fs';

const page = readFileSync(new URL('../../../../src/slots/bootloaders/README.md', import.meta.url), 'utf8');

/** The script of the image page: the tests use its actual text. */
export function readmeScript(name: 'u-boot' | 'grub' | 'grub menu' | 'u-boot start'): string {
  const script = new RegExp(`^\`\`\`sh ${name}\n(.*?)^\`\`\``, 'ms').exec(page)?.[1];
  if (script === undefined) throw new Error(`README.md has no script ${name}`);
  return script;
}
