import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A part of the built program whose license asks that its text is passed on. */
export interface LicensedPart {
  readonly title: string;
  /** Directories that may have the text. The first match counts. */
  readonly directories: readonly string[];
}

/** Returns the copyright file of a built tree: the agent's license, and the license text of each part. Throws if a part has no text. */
export async function copyrightText(parts: readonly LicensedPart[]): Promise<string> {
  const texts = await Promise.all(parts.map(async (one) => ({ ...one, text: await licenseIn(one.directories) })));
  const missing = texts.filter(({ text }) => text === undefined);
  if (missing.length > 0) {
    const names = missing.map(({ title, directories }) => `${title} (in ${directories.join(' or ')})`);
    throw new Error(`no license text of ${names.join(', ')}: expected a file LICENSE, LICENCE, COPYING or copyright`);
  }
  return [
    'Thing Agent is licensed under the Apache License, version 2.0, whose text is',
    'in /usr/share/common-licenses/Apache-2.0 on Debian systems, and in LICENSE of',
    'a built tree.',
    '',
    'Copyright: the authors of Thing Agent',
    '',
    'The program contains parts of these packages. Their origin and digests are in',
    'sbom.cdx.json in the same directory.',
    '',
    ...texts.map(({ title, text = '' }) => `${RULE}\n${title}\n${RULE}\n\n${text.trim()}\n`),
  ].join('\n');
}

const RULE = '-'.repeat(78);

async function licenseIn(directories: readonly string[]): Promise<string | undefined> {
  for (const directory of directories) {
    const file = (await filesOf(directory)).find((name) => /^(licen[cs]e|copying|copyright)(\.(md|txt))?$/i.test(name));
    if (file !== undefined) return readFile(join(directory, file), 'utf8');
  }
  return undefined;
}

async function filesOf(directory: string): Promise<readonly string[]> {
  try {
    return (await readdir(directory)).sort();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
}
