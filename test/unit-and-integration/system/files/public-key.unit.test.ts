import { describe, expect, test } from 'vitest';

import { parsePublicKey } from '../../../../src/system/files/public-key.ts';

/** One P-256 key in each form that OpenSSL 3 writes (`openssl ec -pubout -conv_form …`, `-param_enc explicit`). */
const encodings = {
  uncompressed:
    'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEptsUgl3LtV0Ca8YIt4sStDJyh26/bnC5WHzxBVsGaU8VDwrpOR4mPVrv+Bah8dvSaC4p/aHFD1SmBryTgI/Sug==',
  compressed: 'MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgACptsUgl3LtV0Ca8YIt4sStDJyh26/bnC5WHzxBVsGaU8=',
  hybrid:
    'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAGptsUgl3LtV0Ca8YIt4sStDJyh26/bnC5WHzxBVsGaU8VDwrpOR4mPVrv+Bah8dvSaC4p/aHFD1SmBryTgI/Sug==',
  explicit:
    'MIIBSzCCAQMGByqGSM49AgEwgfcCAQEwLAYHKoZIzj0BAQIhAP////8AAAABAAAAAAAAAAAAAAAA////////////////MFsEIP////8AAAABAAAAAAAAAAAAAAAA///////////////8BCBaxjXYqjqT57PrvVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMVAMSdNgiG5wSTamZ44ROdJreBn36QBEEEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9QIhAP////8AAAAA//////////+85vqtpxeehPO5ysL8YyVRAgEBA0IABKbbFIJdy7VdAmvGCLeLErQycoduv25wuVh88QVbBmlPFQ8K6TkeJj1a7/gWofHb0mguKf2hxQ9Upga8k4CP0ro=',
};
const pemOf = (base64: string): string => `-----BEGIN PUBLIC KEY-----\n${base64}\n-----END PUBLIC KEY-----\n`;
const canonical = parsePublicKey(pemOf(encodings.uncompressed));

describe('a public key', () => {
  // Regression: a list that revoked the compressed form of a key left its uncompressed form trusted.
  test.each(Object.entries(encodings))('has one identity in its %s encoding', (_, base64) => {
    const found = parsePublicKey(pemOf(base64));
    expect(found.fingerprint).toBe(canonical.fingerprint);
    expect(found.key.equals(canonical.key)).toBe(true);
  });

  test('is identified by the digest of its SubjectPublicKeyInfo, as openssl computes it', () => {
    // openssl pkey -pubin -outform DER -in uncompressed.pem | sha256sum
    expect(canonical.fingerprint).toBe('sha256:2de7244597cd49025cc0d2257c1705528fe1ebbfa8ac913b2b70542a23f2a3e3');
  });
});
