import { existsSync } from 'node:fs';

import { runProgram } from './child-process.ts';

/** The directory by which sd_booted(3) recognizes systemd. */
const SYSTEMD_RUNS = '/run/systemd/system';
const DEADLINE_MS = 5_000;
/** The agent's own unit while its program has not reported that it is ready. A unit that waits to be restarted is in `auto-restart`. */
const SHOW = ['systemctl', 'show', '--property=SubState', '--value', 'thing-agent.service'] as const;

/** True if systemd runs here. */
export function isSystemdRunning(): boolean {
  return existsSync(SYSTEMD_RUNS);
}

/** True if systemd is starting the agent's unit. */
export async function isUnitStarting(signal: AbortSignal): Promise<boolean> {
  if (!isSystemdRunning()) return false;
  const { stdout } = await runProgram(SHOW, { timeoutMs: DEADLINE_MS }, signal);
  return stdout.trim() === 'start';
}
