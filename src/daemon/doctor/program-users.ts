import type { Config } from '../../config/config.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { SystemError } from '../../system/system-errors.ts';

const TRY_MS = 10_000;

/** Assumes the rights of each user for whom the configuration runs a program. Returns undefined without such a user. */
export async function tryUsers(config: Config, signal: AbortSignal): Promise<string | undefined> {
  const users = usersOf(config);
  for (const user of users) {
    const { exitCode, stderr } = await runProgram(['true'], { timeoutMs: TRY_MS, user }, signal);
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
