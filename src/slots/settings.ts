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
    slots: z
      .strictObject({
        A: absolutePath('/dev/disk/by-partlabel/rootfs-a', 'slot'),
        B: absolutePath('/dev/disk/by-partlabel/rootfs-b', 'slot'),
      })
      .describe('The partition (or the file) of each slot'),
    read_only: flag()
      .optional()
      .meta({
        description:
          'true: nothing writes to a running image, so a rollback to a changed image is rejected. The agent ' +
          'detects squashfs and erofs without this setting',
        examples: [true],
      }),
    bootloader: bootloaderSchema
      .optional()
      .describe(
        'How the agent controls the bootloader. Exactly one target of kind "slots" has it; further pairs, such as ' +
          'boot partitions, switch with it',
      ),
  })
  .describe('Two slots: the gateway runs one of them, and updates are written to the other');

export type SlotsTargetSettings = SettingsOf<typeof slotsTargetSchema> & { readonly name: string };

export type BootloaderSettings = SettingsOf<typeof bootloaderSchema>;

/** The one pair of slots that has the bootloader. */
export type BootingSlotsSettings = SlotsTargetSettings & { readonly bootloader: BootloaderSettings };
