import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

const project = join(import.meta.dirname, '../..');

const bom = z.object({
  components: z.array(z.object({ name: z.string(), version: z.string(), purl: z.string().optional() })),
});

/**
 * The copyright file of the package: the agent's licence, and the licence texts of all that its bill of materials names, as
 * their authors want them to travel along.
 */
export async function copyrightText(billOfMaterials: string): Promise<string> {
  const { components } = bom.parse(JSON.parse(billOfMaterials));
  const packages = components.filter(({ name }) => name !== 'node');
  const runtime = components.find(({ name }) => name === 'node');
  if (runtime === undefined) throw new Error('the bill of materials names no runtime');
  const parts = await Promise.all(
    packages.map(async ({ name, version }) => part(`${name} ${version}`, await licenceOf(name))),
  );
  return [
    'Thing Agent is licensed under the Apache License, version 2.0, whose text is',
    'in /usr/share/common-licenses/Apache-2.0 on Debian systems.',
    '',
    'Copyright: the authors of Thing Agent',
    '',
    'The program holds parts of these packages, of which sbom.cdx.json beside this',
    'file has origin and digest:',
    '',
    ...parts,
    part(`Node.js ${runtime.version} (the runtime, with the libraries that are part of it)`, await runtimeLicence()),
  ].join('\n');
}

function part(title: string, text: string): string {
  return `${'-'.repeat(78)}\n${title}\n${'-'.repeat(78)}\n\n${text.trim()}\n`;
}

/** Some packages say in package.json alone under which licence they are. */
async function licenceOf(name: string): Promise<string> {
  const folder = join(project, 'node_modules', name);
  const file = (await readdir(folder)).sort().find((entry) => /^licen[cs]e(\.(md|txt))?$/i.test(entry));
  if (file !== undefined) return readFile(join(folder, file), 'utf8');
  const { license, author } = z
    .object({ license: z.string(), author: z.union([z.string(), z.object({ name: z.string() })]).optional() })
    .parse(JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')));
  const by = author === undefined || typeof author === 'string' ? author : author.name;
  return `Licence: ${license}${by === undefined ? '' : `\nAuthor: ${by}`}`;
}

async function runtimeLicence(): Promise<string> {
  return readFile(join(project, `node_modules/node-linux-${process.arch}/LICENSE`), 'utf8');
}
