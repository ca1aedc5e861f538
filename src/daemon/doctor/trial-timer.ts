import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { makeFolder } from '../../system/files/make-folder.ts';
import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { isSystemdRunning } from '../../system/processes/unit-state.ts';
import type { Machine } from '../../update/ports.ts';
import { DaemonError } from '../errors.ts';
import type { Warning } from './findings.ts';

const TIMER = 'thing-agent-trial.timer';
const SERVICE = 'thing-agent-trial.service';
const PROGRAM = '/usr/lib/thing-agent/trial-guard';
const LOOK_MS = 10_000;
const START_MS = 60_000;
/** The exit code of `trial-guard --look` while a trial is open. */
const TRIAL_IS_OPEN = 3;

/**
 * Tells systemd/trial-guard that the running slot was kept in this boot, since the kernel command line still calls it a
 * trial. If this cannot be written, the trial timer reboots once, which does no harm.
 */
export async function notifyTrialTimer(
  runDirectory: string,
  machine: Pick<Machine, 'bootId'>,
  log: Log,
): Promise<void> {
  const path = join(runDirectory, 'committed');
  try {
    await makeFolder(runDirectory, 0o750);
    await rm(path, { force: true });
    await writeFile(path, `${await machine.bootId()}\n`, { flag: 'wx' }); // follows no link
  } catch (error) {
    if (!(error instanceof AgentError) && systemErrorCode(error) === undefined) throw error;
    log.warn({ path, reason: describeError(error) }, 'the trial timer could not be notified of the commit');
  }
}

/** Starts the service of the trial timer once: it does nothing unless a trial is open. */
export async function testTrialTimer(signal: AbortSignal): Promise<string | Warning> {
  if (!isSystemdRunning()) {
    const advice = 'run the agent under systemd, or end such a trial with your own program';
    return {
      detail: 'none, as systemd does not run here: a new slot in which the agent cannot start would stay',
      advice,
    };
  }
  const timer = await runProgram(['systemctl', 'is-active', TIMER], { timeoutMs: LOOK_MS }, signal);
  if (timer.stdout.trim() !== 'active') {
    throw missing(`${TIMER} is not active`, `systemctl enable --now ${TIMER}, in the image too`);
  }
  if (!existsSync(PROGRAM)) throw missing(`${PROGRAM} is missing`, 'install the agent again');
  const look = await runProgram([PROGRAM, '--look'], { timeoutMs: LOOK_MS }, signal);
  if (look.exitCode === TRIAL_IS_OPEN) return `${TIMER} is active; not tried: ${look.stdout.trim()}`;
  const start = await runProgram(['systemctl', 'start', SERVICE], { timeoutMs: START_MS }, signal);
  if (start.exitCode === 0) return `${TIMER} is active, and its program runs`;
  const show = ['systemctl', 'show', '--property=Result,ExecMainStatus', SERVICE] as const;
  const { stdout } = await runProgram(show, { timeoutMs: LOOK_MS }, signal);
  throw missing(
    `${SERVICE} cannot run (${stdout.trim().replaceAll('\n', ', ')})`,
    `systemctl status ${SERVICE} shows the reason`,
  );
}

function missing(why: string, advice: string): DaemonError {
  return new DaemonError('trial-timer-missing', `${why}: a new slot in which the agent cannot start would stay`, {
    advice,
  });
}
