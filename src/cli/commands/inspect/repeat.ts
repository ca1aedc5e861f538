import { exitCodes } from '../../../system/errors.ts';
import type { CliContext } from '../../context.ts';

/** The pause between two readings. Each reading asks the bootloader, which starts programs on some gateways. */
const PAUSE_MS = 2_000;

/**
 * Shows something again and again until it is complete, until Ctrl-C, which is a success, or until the output has no
 * reader.
 */
export async function repeat(context: CliContext, show: () => Promise<'complete' | 'open'>): Promise<number> {
  const { out, clock, signal } = context;
  try {
    while (out.isOpen) {
      if ((await show()) === 'complete') break;
      await clock.sleep(PAUSE_MS, signal);
    }
  } catch (error) {
    if (!signal.aborted || error !== signal.reason) throw error;
  }
  return exitCodes.done;
}
