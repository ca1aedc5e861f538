import * as z from 'zod';

import { settingsOf } from '../system/settings/settings.ts';
import { absolutePath, flag, text, utcTime } from '../system/settings/values.ts';

const keySchema = z.strictObject({
  file: absolutePath('/etc/thing-agent/trust/release.pem'),
  name: text('a text that is not empty', 64).optional(),
  not_before: utcTime().optional().describe('Believed from then on; a date is its beginning, in UTC'),
  not_after: utcTime().optional().describe('Believed until then'),
});

export const trustSchema = z.strictObject({
  keys: z
    .array(z.union([absolutePath('/etc/thing-agent/trust/release.pem'), keySchema]))
    .max(32)
    .default([])
    .describe('Files with public keys, each perhaps with a name, a beginning and an end'),
  allow_unsigned: flag().default(false),
  names: z
    .enum(['match', 'free'])
    .default('match')
    .describe('Whether the service must offer a release under the name that it is signed with'),
  downgrade: z
    .enum(['allow', 'refuse'])
    .default('allow')
    .describe('Whether a release may be older by its signed name, where it has no security_version'),
});

/** A file with a public key. */
interface KeyFileSettings {
  readonly file: string;
  readonly name?: string | undefined;
  readonly notBeforeMs?: number | undefined;
  readonly notAfterMs?: number | undefined;
}

/** `[trust]` */
export function trustSettings(written: z.output<typeof trustSchema>) {
  const settings = settingsOf(trustSchema, written);
  const keys: readonly KeyFileSettings[] = settings.keys.map((key) => (typeof key === 'string' ? { file: key } : key));
  return { ...settings, keys };
}
