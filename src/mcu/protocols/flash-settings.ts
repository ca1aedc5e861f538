import { wholeNumber } from '../../system/settings/values.ts';

/** Of protocols that do not ask the chip. */
export const flashSettings = {
  flash_bytes: wholeNumber(1024, 16_777_216).optional().describe('STM32, ESP: size of the flash memory'),
};
