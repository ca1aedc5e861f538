import { espProtocol } from './esp/esp.ts';
import { smpProtocol } from './smp.ts';
import { stk500v1Protocol } from './stk500v1.ts';
import { stk500v2Protocol } from './stk500v2.ts';
import { stm32Protocol } from './stm32/stm32.ts';
import { xmodemProtocol } from './xmodem.ts';

/** All protocols; `[targets.NAME] protocol` names one of them. */
export const protocols = [
  stk500v1Protocol,
  stk500v2Protocol,
  stm32Protocol,
  espProtocol,
  smpProtocol,
  xmodemProtocol,
] as const;
