import * as z from 'zod';

import type { SettingsOf } from '../system/settings/settings.ts';
import { duration, text } from '../system/settings/values.ts';

const packageText = 'the name of a Debian package';

export const packageTargetSchema = z
  .strictObject({
    kind: z.literal('package'),
    package: text(packageText, 128)
      .regex(/^[a-z0-9][a-z0-9+.-]+$/, packageText)
      .meta({ description: 'What dpkg calls it: thing-agent, or an application', examples: ['thing-agent'] }),
    install_deadline: duration('10s', '1d')
      .default('10m')
      .describe('What dpkg and the scripts of the package may take'),
    grace_period: duration('10s', '1d')
      .default('5m')
      .describe(
        'Beyond [update.health] deadline: what stood before is put back when so long no agent has judged the new one',
      ),
  })
  .describe('Without slots: a package of this system, put back where it proves bad. Not beside a target of kind slots');

/** A package of this system as a target, for gateways without a second slot for the root file system. */
export type PackageTargetSettings = SettingsOf<typeof packageTargetSchema> & { readonly name: string };
