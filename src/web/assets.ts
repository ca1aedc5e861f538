import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describeError, mapError } from '../system/errors.ts';
import { PageError } from './page-errors.ts';

/** The files that the page loads, by their path. */
export type Assets = ReadonlyMap<string, { readonly type: string; readonly body: Buffer }>;

/** Files in the directory of this file, in the source and in the built agent (systemd/make/build.ts). */
const types = { 'page.css': 'text/css; charset=utf-8', 'page.js': 'text/javascript; charset=utf-8' } as const;

export async function readAssets(): Promise<Assets> {
  const all = Object.entries(types).map(
    async ([name, type]) => [`/${name}`, { type, body: await readFile(join(import.meta.dirname, name)) }] as const,
  );
  const missing = (error: unknown): PageError =>
    new PageError('page-unavailable', `one of its files is missing: ${describeError(error)}`, { cause: error });
  return new Map(await mapError(Promise.all(all), missing));
}
