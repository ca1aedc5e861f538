import { isDeepStrictEqual } from 'node:util';

import * as z from 'zod';

import { allSettings, namesOf } from '../system/settings/described.ts';
import type { SettingsOf } from '../system/settings/settings.ts';
import { absolutePath, command, wholeNumber } from '../system/settings/values.ts';
import { protocols } from './protocols/protocols.ts';

/** `[targets.NAME]` of a board. */
export const mcuTargetSchema = z
  .strictObject({
    kind: z.literal('mcu'),
    port: absolutePath('/dev/serial/by-id/usb-meter', 'device').describe(
      'Serial port of the board. Names in /dev/serial/by-id do not change at a reboot',
    ),
    protocol: z.enum(namesOf(protocols)).describe('Protocol of the board’s bootloader'),
    baud: wholeNumber(300, 4_000_000)
      .default(115_200)
      .describe(
        'Bits per second. An ESP is always found at 115200, and then switched to a higher rate, such as 921600',
      ),
    reset: z
      .union([
        z.enum(['dtr', 'dtr-rts', '1200bps', 'none']),
        z.strictObject({ command: command().describe('Program that starts the board’s bootloader, within 10 s') }),
      ])
      .default('dtr')
      .describe(
        'How the board is reset into its bootloader: with the DTR line ("dtr"), with DTR and RTS ("dtr-rts"), by opening ' +
          'the port at 1200 bits per second ("1200bps"), with a program ({ command = ["/usr/lib/app/reset-meter"] }), ' +
          'or not by the agent ("none")',
      ),
    ...allSettings(protocols),
    mcuboot_key_file: absolutePath('/etc/thing-agent/trust/mcuboot.pem', 'mcuboot key')
      .optional()
      .describe('PEM file of a public key: accepts only MCUboot images that are signed with it'),
  })
  .describe('A board: a microcontroller on a serial port. It is updated together with the gateway, or not at all');

/** Returns the protocols that have this setting instead of the given one. Empty if that has it, or none. */
export function protocolsWith(setting: string, butNot: string): readonly string[] {
  const users: readonly string[] = namesOf(protocols.filter(({ settings }) => Object.hasOwn(settings, setting)));
  return users.includes(butNot) ? [] : users;
}

/** True if both boards may have one port: they are two images of one SMP server, or a reset command of each selects it. */
export function maySharePort(
  one: Pick<BoardSettings, 'protocol' | 'reset' | 'smp'>,
  other: Pick<BoardSettings, 'protocol' | 'reset' | 'smp'>,
): boolean {
  if (one.protocol === 'smp' && other.protocol === 'smp' && one.smp.image !== other.smp.image) return true;
  const areSelected = typeof one.reset === 'object' && typeof other.reset === 'object';
  return areSelected && !isDeepStrictEqual(one.reset, other.reset);
}

export type BoardSettings = SettingsOf<typeof mcuTargetSchema> & { readonly name: string };
