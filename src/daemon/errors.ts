import { defineErrors } from '../system/define-errors.ts';

/** The configuration or the gateway does not allow what was asked of the agent. */
export class DaemonError extends defineErrors('DaemonError', {
  'schedule-invalid': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The schedule is no cron expression.',
    advice: 'write five fields, such as "*/15 * * * *"',
  },
  'no-slots-configured': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The configuration has no target of kind slots.',
    advice: 'add [targets.gateway] with kind = "slots"',
  },
  'no-targets-configured': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The configuration has no targets, so there is nothing to update.',
    advice:
      'add a target: [targets.gateway] with kind = "slots", a package with kind = "package", or a board with kind = "mcu"',
  },
  'state-not-permitted': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'This user may not see what the agent keeps, and no daemon runs that could be asked.',
    advice: 'the same with sudo, or start the daemon: systemctl start thing-agent',
  },
  'single-not-permitted': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'One process in place of agent and helper needs the rights of both, which only root has.',
    advice: 'the same with sudo, or without --single',
  },
  'helper-runs': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'One process is to do the work of the helper, and the helper runs.',
    advice: 'it ends ten seconds after the last question; or systemctl stop thing-helper.socket thing-helper',
  },
  'files-not-taken': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The agent without rights has kept files that one process would need, and that were not taken from it.',
    advice: 'as root: /usr/lib/thing-agent/own-folders root; or start the agent as before: systemctl start thing-agent',
  },
  'sensor-unknown': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'The configuration has no such source of datapoints.',
    advice: 'agent sensors shows those that there are',
  },
  'no-trusted-key': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'There is no trusted key, so no firmware can be installed.',
    advice: 'name the public key of your releases in [trust] keys',
  },
  'safety-net-missing': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The safety net for a slot in which the agent cannot start is not active, or cannot run.',
    advice: 'systemctl enable --now thing-agent-trial.timer, in the image too',
  },
  'not-activated': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'This gateway is not activated at the service yet.',
    advice: 'the daemon activates by itself; `agent activate` does it now',
  },
  'spool-elsewhere': {
    remedy: 'give-up',
    exit: 'tryAgain',
    means: 'The spool belongs to the daemon, and no daemon runs.',
    advice: 'systemctl start thing-agent',
  },
  'board-not-configured': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'The configuration has no board of this name.',
    advice: 'agent mcu list',
  },
  'nothing-to-restore': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'Nothing is kept of what the board held before.',
    advice: 'flash a file: agent mcu flash NAME FILE',
  },
}) {}
