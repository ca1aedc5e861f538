import * as z from 'zod';

import { mcuTargetSchema } from '../../mcu/settings.ts';
import { absolutePath, flag, text, wholeNumber } from '../../system/settings/values.ts';
import { packageTargetSchema } from './package-schema.ts';

const variableText = 'the name of a boot variable';
const variable = () => text(variableText, 64).regex(/^[A-Za-z0-9_.{}-]+$/, variableText);
const slotVariableText = 'the name of a boot variable with "{slot}" in it';

const bootNameText = 'what the bootloader calls this slot';
const bootName = (name: string) =>
  text(bootNameText, 32)
    .regex(/^[A-Za-z0-9_-]+$/, bootNameText)
    .default(name);
const bootNames = () =>
  z
    .strictObject({ A: bootName('A'), B: bootName('B') })
    .default({ A: 'A', B: 'B' })
    .describe('What the bootloader calls the slots');

const bootloaderSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('uboot'),
    fw_env_config: absolutePath('/etc/fw_env.config').optional().describe('Instead of /etc/fw_env.config'),
    order_variable: variable().default('BOOT_ORDER'),
    left_variable: variable()
      .refine((name) => name.includes('{slot}'), slotVariableText)
      .default('BOOT_{slot}_LEFT'),
    trial_variable: variable().default('BOOT_TRIAL').describe('Names the slot on trial'),
    attempts: wholeNumber(1, 99).default(3).describe('Boot counter of a committed slot'),
    names: bootNames(),
  }),
  z.strictObject({
    kind: z.literal('grub'),
    environment: absolutePath('/boot/grub/grubenv').default('/boot/grub/grubenv'),
    attempts: wholeNumber(1, 9).default(3).describe('Boots that a committed slot may fail; 1 for RAUC’s own grub.conf'),
    names: bootNames(),
  }),
  z.strictObject({
    kind: z.literal('tryboot'),
    autoboot: absolutePath('/boot/firmware/autoboot.txt').default('/boot/firmware/autoboot.txt'),
    partitions: z
      .strictObject({ A: wholeNumber(1, 255), B: wholeNumber(1, 255) })
      .default({ A: 2, B: 3 })
      .describe('Numbers of the boot partitions'),
  }),
  z.strictObject({
    kind: z.literal('custom'),
    handler: absolutePath('/usr/lib/boot-handler').describe('Speaks RAUC’s custom interface'),
    names: bootNames(),
  }),
]);

const slotsTargetSchema = z.strictObject({
  kind: z.literal('slots'),
  slots: z.strictObject({
    A: absolutePath('/dev/disk/by-partlabel/rootfs-a'),
    B: absolutePath('/dev/disk/by-partlabel/rootfs-b'),
  }),
  read_only: flag()
    .optional()
    .describe(
      'Nothing writes to its images: before a rollback they must read as they were verified. Known of squashfs and erofs',
    ),
  bootloader: bootloaderSchema
    .optional()
    .describe('One pair has it, and decides which slot boots; further pairs, such as boot partitions, follow it'),
});

export const targetSchema = z.discriminatedUnion('kind', [slotsTargetSchema, mcuTargetSchema, packageTargetSchema]);
