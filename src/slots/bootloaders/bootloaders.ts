import * as z from 'zod';

import { absolutePath, text, wholeNumber } from '../../system/settings/values.ts';
import { bootloaderKind } from './bootloader-kind.ts';

// Reading a configuration loads no bootloader, only this file.

export const DEFAULT_FW_ENV_CONFIG = '/etc/fw_env.config';

const bootNameText = 'what the bootloader calls this slot';
const bootName = (name: string) =>
  text(bootNameText, 32)
    .regex(/^[A-Za-z0-9_-]+$/, bootNameText)
    .default(name);

const bootNames = () =>
  z
    .strictObject({ A: bootName('A'), B: bootName('B') })
    .default({ A: 'A', B: 'B' })
    .meta({
      description: 'Where the bootloader calls the slots otherwise',
      examples: [{ A: 'system0', B: 'system1' }],
    });

const variableText = 'the name of a boot variable';
const variable = () => text(variableText, 64).regex(/^[A-Za-z0-9_.{}-]+$/, variableText);
const slotVariableText = 'the name of a boot variable with "{slot}" in it';

export const ubootSettings = {
  fw_env_config: absolutePath(DEFAULT_FW_ENV_CONFIG, 'readable file')
    .default(DEFAULT_FW_ENV_CONFIG)
    .meta({ description: 'Where it is not /etc/fw_env.config', examples: ['/etc/fw_env-emmc.config'] }),
  order_variable: variable().default('BOOT_ORDER').describe('As the boot script calls it, and the next two'),
  left_variable: variable()
    .refine((name) => name.includes('{slot}'), slotVariableText)
    .default('BOOT_{slot}_LEFT'),
  trial_variable: variable().default('BOOT_TRIAL').describe('Names the slot on trial'),
  attempts: wholeNumber(1, 99)
    .default(3)
    .describe('Boots that a committed slot may fail; takes the place of the script’s own'),
  names: bootNames(),
};

const uboot = bootloaderKind({
  name: 'uboot',
  settings: ubootSettings,
  load: async () => (await import('./uboot.ts')).uboot,
});

export const grubSettings = {
  environment: absolutePath('/boot/grub/grubenv', 'readable file').default('/boot/grub/grubenv'),
  attempts: wholeNumber(1, 9)
    .default(3)
    .describe('Boots that a committed slot may fail; takes the place of the script’s own; 1 for RAUC’s own grub.conf'),
  names: bootNames(),
};

const grub = bootloaderKind({
  name: 'grub',
  settings: grubSettings,
  load: async () => (await import('./grub/grub.ts')).grub,
});

export const trybootSettings = {
  autoboot: absolutePath('/boot/firmware/autoboot.txt', 'readable file').default('/boot/firmware/autoboot.txt'),
  partitions: z
    .strictObject({ A: wholeNumber(1, 255), B: wholeNumber(1, 255) })
    .default({ A: 2, B: 3 })
    .describe('Numbers of the boot partitions'),
};

const tryboot = bootloaderKind({
  name: 'tryboot',
  settings: trybootSettings,
  load: async () => (await import('./tryboot/tryboot.ts')).tryboot,
});

export const customSettings = {
  handler: absolutePath('/usr/lib/boot-handler', 'handler').describe('Speaks RAUC’s custom interface'),
  names: bootNames(),
};

const custom = bootloaderKind({
  name: 'custom',
  settings: customSettings,
  load: async () => (await import('./custom.ts')).custom,
});

/** All bootloaders; `kind` of `[targets.NAME.bootloader]` names one of them. */
export const bootloaders = [uboot, grub, tryboot, custom] as const;
