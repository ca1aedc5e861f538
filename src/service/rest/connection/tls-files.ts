import { describeError } from '../../../system/errors.ts';
import { readGuardedFile } from '../../../system/files/guarded-file.ts';
import { ServiceError } from '../../errors.ts';
import type { TlsFiles } from '../settings.ts';

/** Certificates and key in the form for node:tls; empty if nothing is configured. */
export interface TlsMaterial {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

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
  const bytes = await readGuardedFile(path, { maxBytes: MAX_PEM_BYTES }, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new ServiceError({ code: 'tls-files', why: `cannot read ${path}: ${describeError(error)}`, cause: error });
  });
  const text = bytes.toString('utf8');
  // node:tls ignores an authority that it cannot parse, which would look like an unknown authority
  if (text.includes('-----BEGIN ')) return text;
  throw new ServiceError({ code: 'tls-files', why: `${path} is not a PEM file` });
}
