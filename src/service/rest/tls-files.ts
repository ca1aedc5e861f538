import { readFile } from 'node:fs/promises';

import { describeError } from '../../system/errors.ts';
import { ServiceError } from '../errors.ts';
import type { TlsFiles } from './settings.ts';

/** What node:tls wants of certificates; empty where nothing is configured. */
export interface TlsMaterial {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

export async function readTlsFiles(files: TlsFiles): Promise<TlsMaterial> {
  const [ca, cert, key] = await Promise.all([
    readPem(files.caFile),
    readPem(files.clientCertificateFile),
    readPem(files.clientKeyFile),
  ]);
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}

async function readPem(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new ServiceError({ code: 'tls-files', why: `cannot read ${path}: ${describeError(error)}`, cause: error });
  });
  // node:tls ignores an authority that it cannot parse, which would look like an unknown one
  if (text.includes('-----BEGIN ')) return text;
  throw new ServiceError({ code: 'tls-files', why: `${path} is not a PEM file` });
}
