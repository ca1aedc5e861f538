import type { CodeMeaning } from '../../system/define-errors.ts';
import type { GatewayState, IdleCode, Problem } from '../gateway-state.ts';

const unreadable = {
  means: 'The journal of updates was damaged, so earlier results and blocked versions are unknown.',
  advice:
    'compare the assigned version with agent history, since a version that failed may be tried again; ' +
    'this ends when a version is installed',
} satisfies CodeMeaning;

/** The meanings of the codes of a status (`idleCode`, `problems`) that are not error codes. */
export const stateCodes = {
  busy: { means: 'An operation is running.', advice: 'wait; to follow it: agent status --watch' },
  'on-trial': {
    means: 'A new version runs, and its health checks are running.',
    advice: 'wait, or decide now: agent commit or agent rollback',
  },
  'needs-attention': {
    means: 'Something failed that the agent cannot fix.',
    advice: 'agent status names it, and what to do',
  },
  broken: {
    means: 'The gateway cannot be updated, or a board has no program.',
    advice: 'agent status names the reason, and what to do',
  },
  'up-to-date': { means: 'The assigned version is running.', advice: 'nothing' },
  'update-available': {
    means: 'A version can be installed now.',
    advice: 'agent --update-now, or wait for the next check',
  },
  'nothing-offered': { means: 'The service offers no version.', advice: 'nothing; assign a version in the service' },
  'not-asked': { means: 'No update check since the agent started.', advice: 'to check now: agent check' },
  staging: { means: 'An update is being written.', advice: 'to follow it: agent status --watch' },
  staged: { means: 'A staged update waits for its reboot.', advice: 'agent reboot' },
  trial: {
    means: 'The health checks of a new version are running.',
    advice: 'wait, or end the trial: agent commit or agent rollback',
  },
  'rolling-back': { means: 'The gateway is rolling back.', advice: 'wait; to follow it: agent status --watch' },
  'no-daemon': { means: 'The daemon is not running.', advice: 'systemctl start thing-agent' },
  'daemon-starting': {
    means: 'systemd starts the daemon.',
    advice: 'wait; if it takes minutes: journalctl -u thing-agent',
  },
  'service-failing': { means: 'The last call to the service failed.', advice: 'to find the cause: agent doctor' },
  'update-impossible': {
    means: 'Bootloader, slots or state directory fail.',
    advice: 'to find the cause: agent doctor',
  },
  'journal-lost': unreadable,
  'last-attempt-failed': {
    means: 'The last update could not be written.',
    advice: 'to see the reason: agent log',
  },
  'last-attempt-refused': { means: 'The last update was refused.', advice: 'to see the reason: agent log' },
  'last-attempt-rolled-back': {
    means: 'The last update was booted and then rolled back.',
    advice: 'to see the reason: agent log',
  },
} as const satisfies Partial<Record<GatewayState | IdleCode | Problem, CodeMeaning>>;
