import * as z from 'zod';

import { flag, text, wholeNumber } from '../../system/settings/values.ts';
import { boardProtocol } from './board-protocol.ts';

// Reading a configuration loads no protocol, only this file.

/** Settings of protocols that receive a file of any format. */
const formatSettings = {
  format: z
    .literal('raw')
    .optional()
    .describe('"raw": a file of unknown format is a raw binary. By default, only if its name ends in .bin'),
};

/** Settings of protocols that write to addresses. */
const addressSettings = {
  address: wholeNumber(0, 0xffff_ffff)
    .optional()
    .meta({ description: 'Address to which a raw binary is written', examples: [0x0800_0000] }),
  ...formatSettings,
};

/** Settings of protocols that know the usual size of the chip's boot section. */
const avrSettings = {
  ...addressSettings,
  bootloader_bytes: wholeNumber(256, 65_536)
    .optional()
    .meta({
      description: 'AVR: bytes of the boot section; by default, as usual for the chip and its bootloader',
      examples: [512],
    }),
};

/** Settings of protocols that cannot ask the chip for its size. */
const flashSettings = {
  flash_bytes: wholeNumber(1024, 16_777_216)
    .optional()
    .meta({
      description: 'STM32, ESP: bytes of flash memory; by default, the size that the chip reports',
      examples: [131_072],
    }),
};

/** Settings of protocols that know the usual RAM of the chip. */
const ramSettings = {
  ram_bytes: wholeNumber(1024, 16_777_216)
    .optional()
    .meta({ description: 'STM32: size of the RAM of a clone with more than the original', examples: [98_304] }),
};

const stk500v1 = boardProtocol({
  name: 'stk500v1',
  settings: avrSettings,
  create: async (settings) => (await import('./stk500v1.ts')).stk500v1(settings),
});

const stk500v2 = boardProtocol({
  name: 'stk500v2',
  settings: avrSettings,
  create: async (settings) => (await import('./stk500v2.ts')).stk500v2(settings),
});

const stm32 = boardProtocol({
  name: 'stm32',
  settings: { ...addressSettings, ...flashSettings, ...ramSettings },
  create: async (settings) => (await import('./stm32/stm32.ts')).stm32(settings),
});

const esp = boardProtocol({
  name: 'esp',
  settings: { ...addressSettings, ...flashSettings },
  create: async ({ baud, flashBytes, reset }) => {
    const hasResetLine = reset === 'dtr' || reset === 'dtr-rts';
    return (await import('./esp/esp.ts')).esp({ baud, flashBytes, hasResetLine });
  },
});

const smp = boardProtocol({
  name: 'smp',
  settings: {
    smp: z
      .strictObject({
        framing: z
          .enum(['console', 'raw'])
          .default('console')
          .describe('Packets are lines of base64 ("console"), or are not encoded ("raw")'),
        image: wholeNumber(0, 15).default(0).describe('Number of the image, if MCUboot has several'),
        confirm: flag()
          .default(false)
          .describe(
            'false: MCUboot boots the new image once, and returns to the previous one unless the application confirms it. true: the new image stays',
          ),
      })
      .prefault({})
      .describe('Settings of protocol "smp"'),
  },
  create: async (settings) => (await import('./smp/smp.ts')).smp(settings.smp),
});

const xmodem = boardProtocol({
  name: 'xmodem',
  settings: {
    ...formatSettings,
    xmodem: z
      .strictObject({
        variant: z.enum(['xmodem', 'xmodem-1k', 'ymodem']).default('xmodem-1k').describe('Variant of the protocol'),
        upload_keys: text()
          .optional()
          .meta({ description: 'Keys that the agent presses in the boot menu to start the upload', examples: ['1'] }),
        start_keys: text()
          .optional()
          .meta({
            description: 'Keys that the agent presses in the boot menu to start the application',
            examples: ['3'],
          }),
        file_name: text()
          .optional()
          .meta({
            description: 'Name of the file that YMODEM transfers; by default, "firmware.bin"',
            examples: ['app.bin'],
          }),
      })
      .prefault({})
      .describe('Settings of protocol "xmodem"'),
  },
  create: async (settings) => (await import('./xmodem.ts')).xmodem(settings.xmodem),
});

/** All protocols; `[targets.NAME] protocol` names one of them. */
export const protocols = [stk500v1, stk500v2, stm32, esp, smp, xmodem] as const;
