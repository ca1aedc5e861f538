import type { Config } from '../../config/config.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { complaintOfUnit, showUnit, unitState } from '../../update/trial/health.ts';
import { DaemonError } from '../errors.ts';

const LOOK_MS = 10_000;

/**
 * Lists the current state of the units of `[update.health]`, or undefined without any. Throws `unit-missing` for one
 * that systemd does not know or cannot start: with it no release would ever be committed. An inactive unit is fine
 * before an update.
 */
export async function lookAtHealthUnits(
  { update }: Config,
  signal: AbortSignal,
  run = runProgram,
): Promise<string | undefined> {
  const { units } = update.health;
  const said: string[] = [];
  for (const unit of units) {
    const state = unitState(await run(showUnit(unit), { timeoutMs: LOOK_MS }, signal));
    const complaint = complaintOfUnit(unit, state);
    if (state.LoadState !== 'loaded')
      throw new DaemonError('unit-missing', `[update.health] units: ${complaint}, so no release would be committed`);
    said.push(complaint ?? `${unit} is active`);
  }
  return units.length === 0 ? undefined : said.join(', ');
}
