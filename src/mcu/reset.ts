import type { Line } from '../serial/line.ts';
import { runProgram } from '../system/processes/child-process.ts';
import type { Clock } from '../system/time/clock.ts';
import { McuError } from './errors.ts';
import type { ModemStep, Protocol } from './protocol.ts';

/** How a board is brought into its bootloader: the `reset` setting of the target. */
export type Reset = 'dtr' | 'dtr-rts' | '1200bps' | 'none' | { readonly command: readonly [string, ...string[]] };

const commandTimeoutMs = 10_000;
/** The time that a board with native USB needs to leave the bus after it was opened at 1200 bits per second. */
const touchMs = 500;

/** `reopen`: the port disappears and returns, so the line must be reopened. */
export type ResetEffect = 'done' | 'reopen' | 'no-modem-lines';

/** The part of a board that a reset needs. */
export interface Resettable {
  readonly reset: Reset;
  readonly protocol: Protocol;
  readonly clock: Pick<Clock, 'sleep'>;
}

export async function enterBootloader(line: Line, board: Resettable, signal: AbortSignal): Promise<ResetEffect> {
  const { reset, protocol, clock } = board;
  if (reset === 'none') return 'done';
  if (reset === '1200bps') {
    await line.setBaud(1200, signal);
    await line.setModem({ dtr: false, rts: true }, signal);
    await clock.sleep(touchMs, signal);
    return 'reopen';
  }
  if (typeof reset === 'object') {
    await runResetCommand(reset.command, signal);
    return 'done';
  }
  return (await toggleModemLines(line, protocol.enter[reset], clock, signal)) ? 'done' : 'no-modem-lines';
}

/** Starts the application by the modem lines. Returns false if this board has none that do so. */
export async function leaveBootloader(
  line: Line,
  { reset, protocol, clock }: Resettable,
  signal: AbortSignal,
): Promise<boolean> {
  const steps = reset === 'dtr' || reset === 'dtr-rts' ? protocol.leave[reset] : [];
  return (await toggleModemLines(line, steps, clock, signal)) && steps.length > 0;
}

async function toggleModemLines(
  line: Line,
  steps: readonly ModemStep[],
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
): Promise<boolean> {
  let obeyed = true;
  for (const { dtr, rts, thenMs } of steps) {
    obeyed = (await line.setModem({ dtr, rts }, signal)) && obeyed;
    await clock.sleep(thenMs, signal);
  }
  return obeyed;
}

async function runResetCommand(command: readonly [string, ...string[]], signal: AbortSignal): Promise<void> {
  const { exitCode, stderr } = await runProgram(command, { timeoutMs: commandTimeoutMs }, signal);
  if (exitCode === 0) return;
  const why = stderr.split('\n', 1)[0] ?? '';
  const message = `the reset command ${command[0]} failed with ${exitCode ?? 'a signal'}: ${why}`;
  throw new McuError('board-unsupported', message, { advice: 'run the reset command of this target manually' });
}
