import { exitCodes } from '../../../system/errors.ts';
import type { CliContext } from '../../context.ts';

/** The pause between two queries. Each one reads the boot environment, which starts programs on some gateways. */
const PAUSE_MS = 2_000;

/** Repeats until the result is complete, until Ctrl-C, which is a success, or until a line could not be written. */
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
