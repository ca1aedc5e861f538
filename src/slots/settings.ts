import * as z from 'zod';

import { tablesOf } from '../system/settings/described.ts';
import type { SettingsOf } from '../system/settings/settings.ts';
import { absolutePath, flag } from '../system/settings/values.ts';
import { bootloaders } from './bootloaders/bootloaders.ts';

export const bootloaderSchema = z.discriminatedUnion('kind', tablesOf(bootloaders));

/** `[targets.NAME]` of a pair of slots. */
export const slotsTargetSchema = z
  .strictObject({
    kind: z.literal('slots'),
    /** Block devices or files. */
    slots: z.strictObject({
      A: absolutePath('/dev/disk/by-partlabel/rootfs-a', 'slot'),
      B: absolutePath('/dev/disk/by-partlabel/rootfs-b', 'slot'),
    }),
    read_only: flag()
      .optional()
      .meta({
        description:
          'The images are never written to: a rollback is refused if they have changed. Known for squashfs and ' +
          'erofs',
        examples: [true],
      }),
    bootloader: bootloaderSchema
      .optional()
      .describe(
        'Only one pair has it, and decides which slot boots. Further pairs, such as boot partitions, follow it',
      ),
  })
  .describe('The slots that this gateway boots from, and its bootloader');

export type SlotsTargetSettings = SettingsOf<typeof slotsTargetSchema> & { readonly name: string };

export type BootloaderSettings = SettingsOf<typeof bootloaderSchema>;

/** The one pair of slots that has the bootloader. */
export type BootingSlotsSettings = SlotsTargetSettings & { readonly bootloader: BootloaderSettings };
