import type { Compression } from '../compression/compression.ts';
import { VerificationError } from '../errors.ts';
import { quoted } from './refusal.ts';

/** Source: Mender Artifact format version 3, "manifest": the files of the artifact, and the SHA-256 of each in hex. */
export interface Manifest {
  readonly versionDigest: string;
  readonly header: { readonly memberName: string; readonly compression: Compression; readonly digest: string };
  /** The payloads by their number: the digest of each file by its name, in the order of the manifest. */
  readonly payloads: ReadonlyMap<number, ReadonlyMap<string, string>>;
}

const FILES_LIMIT = 256;
const NAME_LIMIT_CHARACTERS = 255;

const compressions: ReadonlyMap<string, Compression> = new Map([
  ['', 'none'],
  ['.gz', 'gzip'],
  ['.xz', 'xz'],
  ['.zst', 'zstd'],
]);

/** The compression that a name such as `header.tar.gz` tells by its end; `stem` is the name without that end. */
export function compressionOf(memberName: string, stem: string): Compression | undefined {
  return memberName.startsWith(stem) ? compressions.get(memberName.slice(stem.length)) : undefined;
}

export function parseManifest(bytes: Uint8Array): Manifest {
  const digests = parseLines(Buffer.from(bytes).toString('latin1'));
  const versionDigest = digests.get('version');
  if (versionDigest === undefined) throw malformed('it does not list "version"');
  digests.delete('version');
  const header = takeHeader(digests);
  return { versionDigest, header, payloads: groupByPayload(digests) };
}

function parseLines(text: string): Map<string, string> {
  const lines = text.split('\n');
  if (lines.pop() !== '') throw malformed('its last line has no end');
  const digests = new Map<string, string>();
  for (const line of lines) {
    const [, digest, name] = /^([0-9a-f]{64}) {2}([\x21-\x7e]+)$/.exec(line) ?? [];
    if (digest === undefined || name === undefined) throw malformed(`the line ${quoted(line)} is garbled`);
    if (digests.has(name)) throw malformed(`${quoted(name)} is listed twice`);
    digests.set(name, digest);
  }
  return digests;
}

function takeHeader(digests: Map<string, string>): Manifest['header'] {
  const found = [...digests].flatMap(([memberName, digest]) => {
    const compression = compressionOf(memberName, 'header.tar');
    return compression === undefined ? [] : [{ memberName, compression, digest }];
  });
  const [header] = found;
  if (header === undefined || found.length > 1) throw malformed('it does not list exactly one header');
  digests.delete(header.memberName);
  return header;
}

function groupByPayload(digests: ReadonlyMap<string, string>): Manifest['payloads'] {
  if (digests.size > FILES_LIMIT) throw malformed(`more than ${FILES_LIMIT} files`);
  const payloads = new Map<number, Map<string, string>>();
  for (const [path, digest] of digests) {
    const [, number, fileName] = /^data\/([0-9]{4})\/([\w.,-]+)$/.exec(path) ?? [];
    if (number === undefined || fileName === undefined || !isFileName(fileName)) {
      throw malformed(`${quoted(path)} is not the name of a payload file`);
    }
    const files = payloads.get(Number(number)) ?? new Map<string, string>();
    payloads.set(Number(number), files.set(fileName, digest));
  }
  return payloads;
}

function isFileName(name: string): boolean {
  return name !== '.' && name !== '..' && name.length <= NAME_LIMIT_CHARACTERS;
}

function malformed(why: string): VerificationError {
  return new VerificationError('artifact-malformed', `artifact, manifest: ${why}`);
}
