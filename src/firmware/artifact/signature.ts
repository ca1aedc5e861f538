import { constants, verify } from 'node:crypto';

import type { TrustedKey } from './trust.ts';

const P256_COORDINATE_BYTES = 32;

/**
 * Returns the trusted key that made this signature of the manifest, if any. `text` is the content of `manifest.sig`, in
 * base64 (Mender Artifact format version 3, "manifest.sig").
 */
export function findSigner(
  manifest: Uint8Array,
  text: Uint8Array,
  keys: readonly TrustedKey[],
): TrustedKey | undefined {
  const signature = decodeBase64(Buffer.from(text).toString('latin1'));
  if (signature === undefined) return undefined;
  return keys.find((trusted) => isSignedBy(trusted, manifest, signature));
}

function isSignedBy(trusted: TrustedKey, manifest: Uint8Array, signature: Uint8Array): boolean {
  const { key } = trusted;
  switch (trusted.algorithm) {
    case 'ed25519':
      return verify(undefined, manifest, key, signature);
    case 'rsa':
      return verify('sha256', manifest, { key, padding: constants.RSA_PKCS1_PADDING }, signature);
    case 'ecdsa-p256':
      return verify('sha256', manifest, { key, dsaEncoding: ecdsaEncoding(signature) }, signature);
  }
}

/** mender-artifact writes r and s one after the other; keys behind PKCS#11 and signing services produce DER. */
function ecdsaEncoding(signature: Uint8Array): 'ieee-p1363' | 'der' {
  return signature.length === 2 * P256_COORDINATE_BYTES ? 'ieee-p1363' : 'der';
}

/** Decodes base64 strictly, since Node's decoder skips foreign characters. One line end may follow. */
function decodeBase64(text: string): Uint8Array | undefined {
  const encoded = text.replace(/\r?\n$/, '');
  const decoded = Buffer.from(encoded, 'base64');
  return decoded.length > 0 && decoded.toString('base64') === encoded ? decoded : undefined;
}
