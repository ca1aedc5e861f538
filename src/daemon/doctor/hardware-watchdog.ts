import { runProgram } from '../../system/processes/child-process.ts';
import { isSystemdRunning } from '../../system/processes/unit-state.ts';
import { readKernelText } from '../../telemetry/sources/kernel/kernel-file.ts';
import type { Warning } from './finding.ts';

/** Source: Linux Documentation/ABI/testing/sysfs-class-watchdog. systemd feeds this one by default. */
const WATCHDOG = '/sys/class/watchdog/watchdog0';
const DEADLINE_MS = 10_000;
const STAYS = 'a slot that hangs before the agent starts stays';
const SET_IT =
  'set RuntimeWatchdogSec=14s in /etc/systemd/system.conf, in the image too (a Raspberry Pi accepts at most 15 s)';

export interface WatchdogFacts {
  /** Omitted if the kernel has no watchdog that reports its state. */
  readonly state: string | undefined;
  /** The timeout in effect, in seconds. */
  readonly timeout: string | undefined;
  /** RuntimeWatchdogUSec of systemd, such as `30s`; `0` or empty if it is not set. */
  readonly requested: string;
}

/** Reads the state of the hardware watchdog, and systemd's request. */
export async function readWatchdog(signal: AbortSignal): Promise<WatchdogFacts> {
  const show = ['systemctl', 'show', '--property=RuntimeWatchdogUSec', '--value'] as const;
  const state = await readKernelText(`${WATCHDOG}/state`, signal);
  if (state === undefined) return { state, timeout: undefined, requested: '' };
  const timeout = await readKernelText(`${WATCHDOG}/timeout`, signal);
  if (!isSystemdRunning()) return { state, timeout, requested: '' };
  const { stdout } = await runProgram(show, { timeoutMs: DEADLINE_MS }, signal);
  return { state, timeout, requested: stdout.trim() };
}

/** Checks that the watchdog is in use: a driver may refuse the timeout that systemd requests. Pure. */
export function examineWatchdog({ state, timeout, requested }: WatchdogFacts): string | Warning {
  if (state === undefined) {
    const advice = 'if the hardware has a watchdog, load its driver in the image';
    return { detail: `this machine reports no hardware watchdog: ${STAYS}`, advice };
  }
  if (state === 'active') return `active, with a timeout of ${timeout ?? 'unknown'} s`;
  if (requested === '' || requested === '0') return { detail: `not in use (${state}): ${STAYS}`, advice: SET_IT };
  const detail = `not in use (${state}) although RuntimeWatchdogSec is ${requested}: the driver may refuse that timeout; ${STAYS}`;
  return { detail, advice: `${SET_IT}; journalctl -b | grep -i watchdog` };
}
