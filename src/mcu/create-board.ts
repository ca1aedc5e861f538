import type { McuTargetSettings as BoardSettings } from '../config/config.ts';
import type { Log } from '../system/log/log.ts';
import type { Clock } from '../system/time/clock.ts';
import type { Board } from './connection.ts';
import type { OpenPort } from './line.ts';
import type { Protocol } from './protocol.ts';
import { esp } from './protocols/esp/esp.ts';
import { smp } from './protocols/smp.ts';
import { stk500v1 } from './protocols/stk500v1.ts';
import { stk500v2 } from './protocols/stk500v2.ts';
import { stm32 } from './protocols/stm32/stm32.ts';
import { xmodem } from './protocols/xmodem.ts';
import type { Reset } from './reset.ts';

export interface BoardSurroundings {
  readonly clock: Clock;
  readonly log: Log;
  /** Undefined: the serial driver's own. */
  readonly openPort?: OpenPort | undefined;
}

/** A configured microcontroller. Its port is not opened, nor the serial driver loaded, before it is needed. */
export function createBoard(settings: BoardSettings, around: BoardSurroundings): Board {
  const { name, port, baud } = settings;
  const { clock, log, openPort = openSerialPort } = around;
  return {
    name,
    protocol: protocolOf(settings),
    baud,
    reset: resetOf(settings),
    openLine: async (line, signal) => openPort(port, line, signal),
    clock,
    log,
  };
}

const openSerialPort: OpenPort = async (...port) => (await import('./serial-line.ts')).openSerialLine(...port);

function protocolOf({
  protocol,
  baud,
  reset,
  bootloaderBytes,
  flashBytes,
  smp: smpOptions,
  xmodem: xmodemOptions,
}: BoardSettings): Protocol {
  switch (protocol) {
    case 'stk500v1':
      return stk500v1({ bootloaderBytes });
    case 'stk500v2':
      return stk500v2({ bootloaderBytes });
    case 'stm32':
      return stm32({ flashBytes });
    case 'esp':
      return esp({ baud, flashBytes, hasResetLine: reset.kind === 'dtr' || reset.kind === 'dtr-rts' });
    case 'smp':
      return smp(smpOptions);
    case 'xmodem':
      return xmodem(xmodemOptions);
  }
}

function resetOf({ reset }: BoardSettings): Reset {
  return reset.kind === 'command' ? { command: reset.command } : reset.kind;
}
