import * as z from 'zod';

import type { SettingsOf } from '../system/settings/settings.ts';
import { duration, text } from '../system/settings/values.ts';

const packageText = 'the name of a Debian package';

export const packageTargetSchema = z
  .strictObject({
    kind: z.literal('package'),
    package: text(packageText, 128)
      .regex(/^[a-z0-9][a-z0-9+.-]+$/, packageText)
      .meta({ description: 'Name of the Debian package: thing-agent, or an application', examples: ['thing-agent'] }),
    install_deadline: duration('10s', '1d')
      .default('10m')
      .describe('Time limit for dpkg, with the scripts of the package'),
    grace_period: duration('10s', '1d')
      .default('5m')
      .describe(
        'Added to the deadline of [update.health]: if no agent has finished the health checks of the new package by then, the previous package is installed again',
      ),
  })
  .describe(
    'A Debian package of a gateway without slots. If its health checks fail, the previous package is installed again. Cannot be combined with a target of kind "slots"',
  );

/** A package of this system as a target, for gateways without a second slot for the root file system. */
export type PackageTargetSettings = SettingsOf<typeof packageTargetSchema> & { readonly name: string };
