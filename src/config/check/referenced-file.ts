import { X509Certificate } from 'node:crypto';
import { constants } from 'node:fs';
import type { Stats } from 'node:fs';
import { access, stat } from 'node:fs/promises';

import { describeError, systemErrorCode } from '../../system/errors.ts';
import {
  MAX_KEY_BYTES,
  MCUBOOT_RSA_MINIMUM_BITS,
  parsePublicKey,
  PublicKeyError,
} from '../../system/files/public-key.ts';
import { readUntrustedFile } from '../../system/files/untrusted-file.ts';
import type { RequiredFileKind } from '../../system/settings/values.ts';
import { MAX_PASSWORD_FILE_BYTES, passwordFault, passwordIn } from '../../web/settings.ts';

export const programs: ReadonlySet<RequiredFileKind> = new Set(['own program', 'program']);
const secretKinds = ['secret', 'page password'] as const;
export const secrets: ReadonlySet<RequiredFileKind | 'user'> = new Set(secretKinds);
/** Files that others must not be able to write. */
export const guarded: ReadonlySet<RequiredFileKind> = new Set([
  ...secretKinds,
  'authorities',
  'certificates',
  'release key',
  'mcuboot key',
  'own script',
]);

/**
 * Returns the reason why the file cannot be used, or undefined if it can. Does not check who may write it. `locate`
 * finds the file on this machine.
 */
export async function findFileProblem(
  file: string,
  need: RequiredFileKind,
  locate = async (path: string) => path,
): Promise<string | undefined> {
  try {
    const place = await locate(file);
    const wrongKind = describeWrongKind(await stat(place), need);
    if (wrongKind === undefined) await open(place, need);
    return wrongKind;
  } catch (error) {
    const why = describeFailure(error, need);
    return why === MISSING && need === 'written file' ? undefined : why;
  }
}

function isExecuted(need: RequiredFileKind): boolean {
  return need === 'handler' || programs.has(need);
}

export const MISSING = 'does not exist';
const [NOT_EXECUTED, NOT_READ] = ['may not be executed', 'may not be read'];
/** Errors that another user may see because of missing permissions. */
export const permissionProblems: ReadonlySet<string> = new Set([NOT_EXECUTED, NOT_READ]);

async function open(file: string, need: RequiredFileKind): Promise<void> {
  if (need === 'release key') parsePublicKey(await textOf(file, MAX_KEY_BYTES));
  else if (need === 'mcuboot key') parsePublicKey(await textOf(file, MAX_KEY_BYTES), MCUBOOT_RSA_MINIMUM_BITS);
  else if (need === 'authorities' || need === 'certificates') readCertificates(await textOf(file, MAX_PEM_BYTES));
  else if (need === 'page password')
    requirePassword(await readUntrustedFile(file, { maxBytes: MAX_PASSWORD_FILE_BYTES }));
  else if (need !== 'slot' && need !== 'device') await access(file, isExecuted(need) ? constants.X_OK : constants.R_OK);
}

/** Twice the size of all authorities of a distribution. */
const MAX_PEM_BYTES = 1024 * 1024;

/** The problem of the content of a file, worded as the end of a sentence. */
class ContentError extends Error {
  override readonly name = 'ContentError';
}

/**
 * Throws ContentError. TLS ignores what it cannot read of the authorities, so that a wrong file would look like an
 * unknown authority.
 */
function readCertificates(text: string): void {
  const found =
    text.match(/-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]*(?:-----END [A-Z0-9 ]{1,64}-----)?/g) ?? [];
  if (found.length === 0) throw new ContentError('holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)');
  for (const [index, pem] of found.entries()) {
    try {
      void new X509Certificate(pem);
    } catch (error) {
      throw new ContentError(`holds a certificate that cannot be read, number ${index + 1}: ${describeError(error)}`);
    }
  }
}

function requirePassword(bytes: Buffer): void {
  const fault = passwordFault(passwordIn(bytes.toString('utf8')));
  if (fault !== undefined) throw new ContentError(fault);
}

async function textOf(file: string, maxBytes: number): Promise<string> {
  return (await readUntrustedFile(file, { maxBytes })).toString('latin1');
}

function describeFailure(error: unknown, need: RequiredFileKind): string {
  if (error instanceof PublicKeyError) return `is refused: ${error.message}`;
  if (error instanceof ContentError) return error.message;
  const code = systemErrorCode(error);
  if (code === 'ENOENT' || code === 'ENOTDIR') return MISSING;
  if (code === 'EACCES') return isExecuted(need) ? NOT_EXECUTED : NOT_READ;
  return `cannot be used: ${describeError(error)}`;
}

function describeWrongKind(facts: Stats, need: RequiredFileKind): string | undefined {
  if (need === 'device') return facts.isCharacterDevice() ? undefined : 'is not a character device';
  if (need === 'slot')
    return facts.isFile() || facts.isBlockDevice() ? undefined : 'is neither a block device nor a file';
  return facts.isFile() ? undefined : 'is not a file';
}
