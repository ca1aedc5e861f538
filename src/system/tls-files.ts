import { describeError } from './errors.ts';
import { readProtectedFile } from './files/protected-file.ts';

/** PEM files. They are read for each connection, so that they can be replaced. */
export interface TlsFiles {
  readonly caFile?: string | undefined;
  readonly clientCertificateFile?: string | undefined;
  readonly clientKeyFile?: string | undefined;
}

/** Certificates and key in the form for node:tls; empty if nothing is configured. */
export interface TlsMaterial {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** A certificate or a key cannot be read or used. */
export class TlsFilesError extends Error {}

/** Throws TlsFilesError, or the signal's reason. */
export async function readTlsFiles(files: TlsFiles, signal: AbortSignal): Promise<TlsMaterial> {
  const [ca, cert, key] = await Promise.all([
    readPem(files.caFile, signal),
    readPem(files.clientCertificateFile, signal),
    readPem(files.clientKeyFile, signal),
  ]);
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}

/** Twice the size of all authorities of a distribution. */
const MAX_PEM_BYTES = 1024 * 1024;

async function readPem(path: string | undefined, signal: AbortSignal): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const bytes = await readProtectedFile(path, { maxBytes: MAX_PEM_BYTES }, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new TlsFilesError(`cannot read ${path}: ${describeError(error)}`, { cause: error });
  });
  const text = new TextDecoder().decode(bytes); // without a byte order mark
  // node:tls ignores an authority that it cannot parse, which would look like an unknown authority
  if (text.includes('-----BEGIN ')) return text;
  throw new TlsFilesError(`${path} is not a PEM file`);
}
