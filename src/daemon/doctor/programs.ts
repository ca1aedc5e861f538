import type { Config } from '../../config/config.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { SystemError } from '../../system/system-errors.ts';
import { complaintOfUnit, showUnit, unitState } from '../../update/trial/health.ts';
import { DaemonError } from '../errors.ts';

const DEADLINE_MS = 10_000;

/**
 * Lists the current state of the units of `[update.health]`, or undefined without any. Throws `unit-missing` for one
 * that systemd does not know or cannot start: with it no release would ever be committed. An inactive unit is fine
 * before an update.
 */
export async function checkHealthUnits(
  { update }: Config,
  signal: AbortSignal,
  run = runProgram,
): Promise<string | undefined> {
  const { units } = update.health;
  const said: string[] = [];
  for (const unit of units) {
    const state = unitState(await run(showUnit(unit), { timeoutMs: DEADLINE_MS }, signal));
    const complaint = complaintOfUnit(unit, state);
    if (state.LoadState !== 'loaded')
      throw new DaemonError('unit-missing', `[update.health] units: ${complaint}, so no release would be committed`);
    said.push(complaint ?? `${unit} is active`);
  }
  return units.length === 0 ? undefined : said.join(', ');
}

/** Assumes the rights of each user for whom the configuration runs a program. Returns undefined without such a user. */
export async function tryUsers(config: Config, signal: AbortSignal): Promise<string | undefined> {
  const users = usersOf(config);
  for (const user of users) {
    const { exitCode, stderr } = await runProgram(['true'], { timeoutMs: DEADLINE_MS, user }, signal);
    if (exitCode === 0) continue;
    const why = stderr.trim().slice(0, 200);
    throw new SystemError('user-unavailable', `no program can run as ${user}: ${why}`, {
      advice: 'does a drop-in narrow the unit? systemctl cat thing-agent',
    });
  }
  return users.length === 0 ? undefined : `programs can run as ${users.join(', ')}`;
}

function usersOf({ update, hooks, measurements, watches }: Config): readonly string[] {
  const places: readonly object[] = [
    update.health,
    ...Object.values<object | undefined>({ ...hooks }).flatMap((hook) => hook ?? []),
    ...measurements.map(({ source }) => source),
    ...watches.map(({ output: into }) => into),
  ];
  const users = places.flatMap((place) => ('user' in place && typeof place.user === 'string' ? [place.user] : []));
  return [...new Set(users)];
}
