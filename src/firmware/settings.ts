import * as z from 'zod';

import { settingsOf } from '../system/settings/settings.ts';
import { absolutePath, flag, text, utcTime } from '../system/settings/values.ts';
import type { KeyFile } from './artifact/trust.ts';

const keySchema = z.strictObject({
  file: absolutePath('/etc/thing-agent/trust/release.pem', 'release key'),
  name: text('a text that is not empty', 64).optional(),
  not_before: utcTime().optional().describe('Believed from then on; a date is its beginning, in UTC'),
  not_after: utcTime().optional().describe('Believed until then'),
});

export const trustSchema = z.strictObject({
  keys: z
    .array(z.union([absolutePath('/etc/thing-agent/trust/release.pem', 'release key'), keySchema]))
    .max(32)
    .default([])
    .meta({
      description:
        'Files with public keys (ECDSA P-256, RSA from 3072 bits, Ed25519), each with an optional name, start ' +
        'and end (UTC). Without a key, nothing is installed',
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
    .describe('Permits unsigned firmware: anyone who can act as the service can then run any code here'),
  name_check: z
    .enum(['strict', 'off'])
    .default('strict')
    .describe('"strict": a release must be offered under its signed name; "off": any name is accepted'),
  downgrade: z
    .enum(['allow', 'refuse'])
    .optional()
    .meta({
      description:
        '"refuse": never install a release whose signed name is older than the committed version; this also covers' +
        ' releases without security_version. "allow": permit it. Without this setting, the service and root may' +
        ' install an older release, operators may not',
      examples: ['refuse'],
    }),
});

/** `[trust]` */
export function trustSettings(written: z.output<typeof trustSchema>) {
  const settings = settingsOf(trustSchema, written);
  const keys: readonly KeyFile[] = settings.keys.map((key) => (typeof key === 'string' ? { file: key } : key));
  return { ...settings, keys };
}
