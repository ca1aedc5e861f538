import * as z from 'zod';

import { absolutePath, text, wholeNumber } from '../../system/settings/values.ts';
import { bootloaderKind } from './bootloader-kind.ts';

// Reading a configuration loads no bootloader, only this file.

export const DEFAULT_FW_ENV_CONFIG = '/etc/fw_env.config';

const bootNameText = 'the name of this slot in the bootloader';
const bootName = (name: string) =>
  text(bootNameText, 32)
    .regex(/^[A-Za-z0-9_-]+$/, bootNameText)
    .default(name)
    .describe(`Name of slot ${name}`);

const bootNames = () =>
  z
    .strictObject({ A: bootName('A'), B: bootName('B') })
    .default({ A: 'A', B: 'B' })
    .meta({
      description: 'Names of the slots in the bootloader',
      examples: [{ A: 'system0', B: 'system1' }],
    });

const variableText = 'the name of a boot variable';
const variable = () => text(variableText, 64).regex(/^[A-Za-z0-9_.{}-]+$/, variableText);
const slotVariableText = 'the name of a boot variable with "{slot}" in it';

export const ubootSettings = {
  fw_env_config: absolutePath(DEFAULT_FW_ENV_CONFIG, 'readable file')
    .default(DEFAULT_FW_ENV_CONFIG)
    .meta({
      description: 'File with the location of the U-Boot variables, for fw_setenv',
      examples: ['/etc/fw_env-emmc.config'],
    }),
  order_variable: variable()
    .default('BOOT_ORDER')
    .describe('Variable with the order of the slots, as in your boot script'),
  left_variable: variable()
    .refine((name) => name.includes('{slot}'), slotVariableText)
    .default('BOOT_{slot}_LEFT')
    .describe('Variable with the remaining boot attempts; {slot} stands for the name of a slot'),
  trial_variable: variable().default('BOOT_TRIAL').describe('Variable with the name of the slot on trial'),
  attempts: wholeNumber(1, 99)
    .default(3)
    .describe(
      'Failed boots after which the bootloader leaves a committed slot. Replaces the number in your boot script',
    ),
  names: bootNames(),
};

const uboot = bootloaderKind({
  name: 'uboot',
  settings: ubootSettings,
  load: async () => (await import('./uboot.ts')).uboot,
});

export const grubSettings = {
  environment: absolutePath('/boot/grub/grubenv', 'readable file')
    .default('/boot/grub/grubenv')
    .describe('Environment block of GRUB'),
  attempts: wholeNumber(1, 9)
    .default(3)
    .describe(
      'Failed boots after which GRUB leaves a committed slot. Replaces the number in your grub.cfg; must be 1 for RAUC’s grub.conf',
    ),
  names: bootNames(),
};

const grub = bootloaderKind({
  name: 'grub',
  settings: grubSettings,
  load: async () => (await import('./grub/grub.ts')).grub,
});

const partition = (slot: string) => wholeNumber(1, 255).describe(`Number of the boot partition of slot ${slot}`);

export const trybootSettings = {
  autoboot: absolutePath('/boot/firmware/autoboot.txt', 'readable file')
    .default('/boot/firmware/autoboot.txt')
    .describe('File in which the Raspberry Pi firmware finds the boot partitions'),
  partitions: z
    .strictObject({ A: partition('A'), B: partition('B') })
    .default({ A: 2, B: 3 })
    .describe('Number of the boot partition of each slot'),
};

const tryboot = bootloaderKind({
  name: 'tryboot',
  settings: trybootSettings,
  load: async () => (await import('./tryboot/tryboot.ts')).tryboot,
});

export const customSettings = {
  handler: absolutePath('/usr/lib/boot-handler', 'handler').describe(
    'Program that controls the bootloader, with the arguments of RAUC’s custom bootloader backend',
  ),
  names: bootNames(),
};

const custom = bootloaderKind({
  name: 'custom',
  settings: customSettings,
  load: async () => (await import('./custom.ts')).custom,
});

/** All bootloaders; `kind` of `[targets.NAME.bootloader]` names one of them. */
export const bootloaders = [uboot, grub, tryboot, custom] as const;
