import * as z from 'zod';

import type { SettingsOf } from '../system/settings/settings.ts';
import { duration, text } from '../system/settings/values.ts';

const packageText = 'the name of a Debian package';

export const packageTargetSchema = z
  .strictObject({
    kind: z.literal('package'),
    package: text(packageText, 128)
      .regex(/^[a-z0-9][a-z0-9+.-]+$/, packageText)
      .meta({ description: 'Its name in dpkg: thing-agent, or an application', examples: ['thing-agent'] }),
    install_deadline: duration('10s', '1d')
      .default('10m')
      .describe('Time limit for dpkg and the scripts of the package'),
    grace_period: duration('10s', '1d')
      .default('5m')
      .describe(
        'Time beyond [update.health] deadline after which the previous package is restored if no agent has finished the health checks of the new one',
      ),
  })
  .describe(
    'Without slots: a package of this system, rolled back if its health checks fail. Not together with a target of kind slots',
  );

/** A package of this system as a target, for gateways without a second slot for the root file system. */
export type PackageTargetSettings = SettingsOf<typeof packageTargetSchema> & { readonly name: string };
