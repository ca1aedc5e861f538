import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { SystemError } from '../../system/system-errors.ts';
import { followTimeZone } from '../../system/time/time-zone.ts';
import type { Runtime } from '../wiring/wiring.ts';

type Surroundings = Pick<Runtime, 'clock'>;

const DATE_MS = 10_000;
const QUARTER_MS = 91 * 86_400_000;
/** `date` of coreutils and of busybox takes one time in a call. */
const OFFSETS = 'for at; do date -d "@$at" +%z || exit; done';

/**
 * Compares local time, now and in each quarter of a year, with the time of date(1), by which an operator writes windows
 * and schedules. The runtime takes a zone that it does not know for UTC: daylight saving time as a POSIX rule, or a zone
 * with an unusual name. Throws `time-zone-unsupported`.
 */
export async function examineLocalTime({ clock }: Surroundings, signal: AbortSignal): Promise<string> {
  followTimeZone();
  const times = [0, 1, 2, 3].map((quarter) => clock.nowMs() + quarter * QUARTER_MS);
  const ours = times.map(offsetOf);
  const shown = `${timeOf(clock.nowMs())} ${ours[0]}`;
  const seconds = times.map((ms) => String(Math.floor(ms / 1000)));
  const asked = await valueOrError(runProgram(['sh', '-c', OFFSETS, 'sh', ...seconds], { timeoutMs: DATE_MS }, signal));
  if (!('stdout' in asked) || asked.exitCode !== 0) return `${shown}, not compared, since date(1) failed`;
  const theirs = asked.stdout.trim().split('\n');
  const other = theirs.findIndex((offset, index) => offset !== ours[index]);
  if (other === -1) return `${shown}, matches the system`;
  const when = new Date(times[other] ?? 0).toISOString().slice(0, 10);
  throw new SystemError(
    'time-zone-unsupported',
    `on ${when} local time is UTC${theirs[other]} for the system, and UTC${ours[other]} for the agent: the runtime does not know this time zone`,
  );
}

/** Throws `time-zone-unsupported` if TZ in the environment is a time zone that the runtime does not know. */
export async function refuseTimeZone(
  world: Surroundings & Pick<Runtime, 'environment'>,
  signal: AbortSignal,
): Promise<void> {
  if ((world.environment['TZ'] ?? '') !== '') await examineLocalTime(world, signal);
}

/** Returns the error of `refuseTimeZone` in one line, or undefined if there is none. */
export async function timeZoneTrouble(
  world: Surroundings & Pick<Runtime, 'environment'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const found = await valueOrError(refuseTimeZone(world, signal));
  return found instanceof AgentError ? describeError(found) : undefined;
}

/** `+1100` */
function offsetOf(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  const [hours, rest] = [Math.trunc(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `${minutes < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}${String(rest).padStart(2, '0')}`;
}

function timeOf(ms: number): string {
  const now = new Date(ms);
  return [now.getHours(), now.getMinutes()].map((part) => String(part).padStart(2, '0')).join(':');
}
