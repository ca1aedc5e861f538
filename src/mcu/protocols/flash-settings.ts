import type * as z from 'zod';

import type { SettingsOf } from '../../system/settings/settings.ts';
import { wholeNumber } from '../../system/settings/values.ts';

/** Settings of protocols that cannot ask the chip for its size. */
export const flashSettings = {
  flash_bytes: wholeNumber(1024, 16_777_216)
    .optional()
    .meta({ description: 'STM32, ESP: size of the flash memory', examples: [131_072] }),
};
export type FlashSettings = Partial<SettingsOf<z.ZodObject<typeof flashSettings>>>;
