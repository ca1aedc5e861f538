import type { FileReport } from '../control/file-report.ts';
import type { FirmwareDescription } from '../firmware/describe-firmware.ts';
import type { Keyring } from '../firmware/trust/keyring.ts';
import type { TrustList } from '../firmware/trust/trust-list.ts';
import { describeChanges } from './security/applied-list.ts';
import { isUsable } from './wiring/trust.ts';
import type { Wiring } from './wiring/wiring.ts';

/**
 * Returns the changes that a trust list would make here, or undefined for another file. Throws the error with which the
 * list would be rejected.
 */
export async function evaluateTrustList(
  { list: bytes, digest }: FirmwareDescription,
  keyring: Keyring | undefined,
  { trust }: Wiring,
): Promise<FileReport['trustList']> {
  if (bytes === undefined) return undefined;
  const { list, before } = await trust.judgeList(bytes, digest);
  const changes = describeChanges({ list, before, known: keyring?.keys ?? [] });
  return { number: list.number, changes: [...changes, ...(keyring === undefined ? [] : leftWithout(keyring, list))] };
}

/**
 * Warns of a signed list that takes away everything that the gateway trusts: it would be the last list that the gateway
 * takes.
 */
function leftWithout(keyring: Keyring, list: TrustList): readonly string[] {
  const revoked = new Set([...(keyring.revoked?.keys ?? []), ...list.revoked.keys]);
  const former = new Set(keyring.list?.keys.map(({ fingerprint }) => fingerprint));
  const configured = keyring.keys.filter(({ fingerprint }) => !former.has(fingerprint));
  const left = [...configured, ...list.keys].filter((key) => !revoked.has(key.fingerprint) && isUsable(key, keyring));
  return left.length > 0 ? [] : ['leaves no trusted key: no release can be installed after it'];
}
