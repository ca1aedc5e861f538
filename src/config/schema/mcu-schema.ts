import * as z from 'zod';

import { absolutePath, command, flag, text, wholeNumber } from './values.ts';

export const mcuTargetSchema = z.strictObject({
  kind: z.literal('mcu'),
  port: absolutePath('/dev/serial/by-id/usb-meter').describe('Best one of /dev/serial/by-id'),
  protocol: z.enum(['stk500v1', 'stk500v2', 'stm32', 'esp', 'smp', 'xmodem']),
  baud: wholeNumber(300, 4_000_000).default(115_200),
  reset: z
    .union([z.enum(['dtr', 'dtr-rts', '1200bps', 'none']), z.strictObject({ command: command() })])
    .default('dtr'),
  address: wholeNumber(0, 0xffff_ffff).optional().describe('Where a raw binary goes, e.g. 0x0800_0000'),
  bootloader_bytes: wholeNumber(256, 65_536).optional().describe('AVR: size of an unusual boot section'),
  flash_bytes: wholeNumber(1024, 16_777_216).optional().describe('STM32, ESP: size of the flash memory'),
  mcuboot_key_file: absolutePath('/etc/thing-agent/trust/mcuboot.pem')
    .optional()
    .describe('Take only images for MCUboot signed with this key'),
  smp: z
    .strictObject({ framing: z.enum(['console', 'raw']).default('console'), confirm: flag().default(false) })
    .prefault({}),
  xmodem: z
    .strictObject({
      variant: z.enum(['xmodem', 'xmodem-1k', 'ymodem']).default('xmodem-1k'),
      upload_keys: text().optional().describe('What a boot menu wants to hear before it receives'),
      start_keys: text().optional(),
      file_name: text().optional(),
    })
    .prefault({}),
});
