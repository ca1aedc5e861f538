import * as z from 'zod';

import { settingsOf } from '../system/settings/settings.ts';
import { absolutePath, flag, text, utcTime } from '../system/settings/values.ts';
import type { KeyFile } from './artifact/trust.ts';

const keySchema = z.strictObject({
  file: absolutePath('/etc/thing-agent/trust/release.pem', 'release key').describe('PEM file of the public key'),
  name: text('a text that is not empty', 64).optional().describe('Name of the key in messages; by default, the file’s'),
  not_before: utcTime().optional().describe('The key is trusted from this time on; a date means 00:00 UTC'),
  not_after: utcTime().optional().describe('The key is not trusted from this time on; a date means 00:00 UTC'),
});

export const trustSchema = z.strictObject({
  keys: z
    .array(z.union([absolutePath('/etc/thing-agent/trust/release.pem', 'release key'), keySchema]))
    .max(32)
    .default([])
    .meta({
      description:
        'PEM files of the public keys that verify releases (ECDSA P-256, RSA from 3072 bits, Ed25519), or tables ' +
        'with a file, a name and a validity period. Without a key, only unsigned firmware can be installed, and ' +
        'only if allow_unsigned is true',
      examples: [
        ['/etc/thing-agent/trust/release.pem'],
        [
          {
            file: '/etc/thing-agent/trust/2027.pem',
            name: '2027',
            not_before: '2026-12-01',
            not_after: '2030-01-01',
          },
        ],
      ],
    }),
  allow_unsigned: flag()
    .default(false)
    .describe(
      'true: installs unsigned firmware, too. Anyone who can act as the service can then run any code on this gateway',
    ),
  name_check: z
    .enum(['strict', 'off'])
    .default('strict')
    .describe('"strict": a release must be offered under its signed name; "off": any name is accepted'),
  downgrade: z
    .enum(['allow', 'refuse'])
    .optional()
    .meta({
      description:
        '"refuse": rejects a release whose signed name is older than the committed version, even if the release has ' +
        'no security_version. "allow": accepts it. By default, the service and root may install an older release, ' +
        'operators may not',
      examples: ['refuse'],
    }),
});

/** `[trust]` */
export function trustSettings(written: z.output<typeof trustSchema>) {
  const settings = settingsOf(trustSchema, written);
  const keys: readonly KeyFile[] = settings.keys.map((key) => (typeof key === 'string' ? { file: key } : key));
  return { ...settings, keys };
}
