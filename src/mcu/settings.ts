import * as z from 'zod';

import { allSettings, namesOf } from '../system/settings/described.ts';
import type { SettingsOf } from '../system/settings/settings.ts';
import { absolutePath, command, wholeNumber } from '../system/settings/values.ts';
import { protocols } from './protocols/protocols.ts';

/** `[targets.NAME]` of a board. */
export const mcuTargetSchema = z
  .strictObject({
    kind: z.literal('mcu'),
    port: absolutePath('/dev/serial/by-id/usb-meter', 'device').describe('Best one of /dev/serial/by-id'),
    protocol: z.enum(namesOf(protocols)),
    baud: wholeNumber(300, 4_000_000)
      .default(115_200)
      .describe('Bits per second; an ESP is found at 115200 and switched to a higher rate, for example 921600'),
    reset: z
      .union([z.enum(['dtr', 'dtr-rts', '1200bps', 'none']), z.strictObject({ command: command() })])
      .default('dtr')
      .describe('"dtr", "dtr-rts", "1200bps", "none" or { command = ["/usr/lib/app/reset-meter"] }'),
    address: wholeNumber(0, 0xffff_ffff)
      .optional()
      .meta({ description: 'Address of a raw binary', examples: [0x0800_0000] }),
    format: z
      .literal('raw')
      .optional()
      .describe('Accepts files of unknown format as raw binaries. By default, their names must end in .bin'),
    ...allSettings(protocols),
    mcuboot_key_file: absolutePath('/etc/thing-agent/trust/mcuboot.pem', 'mcuboot key')
      .optional()
      .describe('Only images for MCUboot that are signed with this key'),
  })
  .describe('Boards: microcontrollers on serial ports, flashed with the gateway as one transaction');

export type BoardSettings = SettingsOf<typeof mcuTargetSchema> & { readonly name: string };
