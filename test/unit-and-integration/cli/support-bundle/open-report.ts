import { createReadStream } from 'node:fs';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';

import { extract } from 'tar-stream';

/** Returns the content of a support bundle, by file name. */
export async function openReport(path: string): Promise<Readonly<Record<string, string>>> {
  const files: Record<string, string> = {};
  const tar = extract();
  const read = (async () => {
    for await (const entry of tar) files[entry.header.name.replace(/^[^/]*\//, '')] = await text(entry);
  })();
  await Promise.all([pipeline(createReadStream(path), createGunzip(), tar), read]);
  return files;
}
