import fc from 'fast-check';

import { fromFile, parseTrustListFile } from '../../../../../src/firmware/trust/trust-list.ts';
import { makeKeyPair } from '../../../../unit-and-integration/firmware/artifact/keys.ts';
import { hostile } from '../../mutation.ts';
import { openTarget, outcomeOf } from '../../target.ts';
import type { FuzzTarget } from '../../target.ts';

const pems = (['ecdsa-p256', 'ed25519', 'rsa'] as const).map((algorithm) => makeKeyPair(algorithm).publicPem);
const digest = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => `sha256:${Buffer.from(bytes).toString('hex')}`);
const time = fc
  .date({ noInvalidDate: true, min: new Date(0), max: new Date('2099-01-01') })
  .map((date) => date.toISOString());
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });

const list = fc.record({
  format: fc.constant('thing-trust'),
  version: fc.constant(1),
  number: fc.integer({ min: 1, max: 1_000_000 }),
  issued: time,
  keys: fc.subarray(pems).chain((some) =>
    fc.tuple(
      ...some.map((pem) =>
        fc.record({
          name: fc.constant('key'),
          pem: fc.constant(pem),
          not_before: optional(time),
          not_after: optional(time),
        }),
      ),
    ),
  ),
  revoked: fc.record({ keys: fc.array(digest, { maxLength: 5 }), releases: fc.array(digest, { maxLength: 5 }) }),
});

/** Trust lists: each parses to the same value when it is read again, or fails with an error. */
export const trustList: FuzzTarget = {
  name: 'trust-list',
  open: async () =>
    openTarget(hostile(list.map((value) => Buffer.from(JSON.stringify(value)))), async (bytes) => {
      const outcome = await outcomeOf(async () => fromFile(parseTrustListFile(bytes)));
      if ('error' in outcome) return;
      const again = fromFile(parseTrustListFile(Buffer.from(JSON.stringify(parseTrustListFile(bytes)))));
      if (JSON.stringify(describe(again)) !== JSON.stringify(describe(outcome.value)))
        throw new Error('read again, it says something else');
    }),
};

function describe({ number, issuedMs, keys, revoked }: ReturnType<typeof fromFile>): unknown {
  return [
    number,
    issuedMs,
    keys.map(({ fingerprint, notBeforeMs, notAfterMs }) => [fingerprint, notBeforeMs, notAfterMs]),
    revoked,
  ];
}
