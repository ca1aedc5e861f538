import assert from 'node:assert/strict';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

import { pack } from 'tar-stream';

import type { CollectedFiles, PackedFile } from './gather.ts';

/** Packs small files into a folder of a `.tar.gz` that only its owner can read. */
export async function writeArchive<T>(
  folder: string,
  files: readonly Pick<PackedFile, 'file' | 'bytes'>[],
  at: Date,
  take: (chunks: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<T> {
  const tar = pack();
  for (const { file, bytes } of files) {
    tar.entry({ name: `${folder}/${file}`, mode: 0o600, mtime: at }, Buffer.from(bytes));
  }
  tar.finalize();
  return pipeline(bytesOf(tar), createGzip(), take);
}

/** The package's streams are not Node's: only their chunks are used. */
async function* bytesOf(tar: AsyncIterable<unknown>): AsyncGenerator<Uint8Array> {
  for await (const chunk of tar) {
    assert(chunk instanceof Uint8Array);
    yield chunk;
  }
}

export interface ReadmeFacts extends CollectedFiles {
  readonly version: string;
  readonly at: string;
}

/** The text of the first file of a report. Pure. */
export function readme({ version, at, files, missing, hidden }: ReadmeFacts): string {
  const cut = files.filter(({ isCut }) => isCut);
  return [
    `A report of Thing Agent ${version}, made at ${at} by: agent support-bundle`,
    '',
    'It holds:',
    ...files.map(({ file, part }) => `  ${file.padEnd(22)}${meanings[part]}`),
    ...(missing.length === 0 ? [] : ['', 'Not here:']),
    ...missing.map(({ part, why, code }) => `  ${part.padEnd(22)}${why} (${code})`),
    ...(cut.length === 0 ? [] : ['', 'Cut, because they are long:']),
    ...cut.map(({ file }) => `  ${file}`),
    '',
    'No key, password or other secret is meant to be in it: what this gateway knows of them was looked for in every part',
    `and replaced by ********, in ${hidden} places. Arguments of configured programs are left out, too.`,
    'It does hold serial number, addresses, names of files and devices, and versions.',
    '',
  ].join('\n');
}

const meanings: Readonly<Record<PackedFile['part'], string>> = {
  status: 'agent status',
  doctor: 'agent doctor',
  configuration: 'the configuration in effect, secrets hidden',
  'config-problems': 'what is wrong with the configuration',
  journal: 'where the running update stands',
  history: 'the last attempts to install',
  security: 'what concerned security',
  sensors: 'agent sensors, with the last readings',
  log: 'what the agent logged (journalctl)',
  unit: 'how systemd sees the agent',
  versions: 'agent, node, kernel, os-release',
  mounts: 'what is mounted',
  'boot-environment': 'what the bootloader chooses from',
  kernel: 'what the kernel said of the configured devices',
};
