import { defineErrors, permanent, transient } from '../system/define-errors.ts';

/** The configuration or the gateway does not allow the requested operation. */
export class DaemonError extends defineErrors('DaemonError', {
  'schedule-invalid': permanent.configuration(
    'The schedule is not a cron expression.',
    'write five fields, such as "*/15 * * * *"',
  ),
  'no-slots-configured': permanent.configuration(
    'The configuration has no target of kind slots.',
    'add [targets.gateway] with kind = "slots"',
  ),
  'no-targets-configured': permanent.configuration(
    'The configuration has no targets, so there is nothing to update.',
    'add a target: [targets.gateway] with kind = "slots", a package with kind = "package", or a board with kind = "mcu"',
  ),
  'state-not-permitted': permanent.refused(
    'This user may not read the state directory, and no daemon is running.',
    'the same with sudo, or start the daemon: systemctl start thing-agent',
  ),
  'serial-number-changed': permanent.configuration(
    'The serial number cannot change while the daemon runs.',
    'systemctl restart thing-agent',
  ),
  'sensor-unknown': permanent.usage(
    'The configuration has no such source of datapoints.',
    'to list the sensors: agent sensors',
  ),
  'sensor-failing': transient.unreachable(
    'A sensor has been failing for 10 minutes or more, or its readings cannot be used.',
    'agent sensors shows the reason for each sensor',
  ),
  'no-trusted-key': permanent.configuration(
    'No key is trusted, so no release can be installed.',
    'name the public key of your releases in [trust] keys',
  ),
  'trial-timer-missing': permanent.configuration(
    'The trial timer, which ends the trial of a slot in which the agent cannot start, is not active, or cannot run.',
    'systemctl enable --now thing-agent-trial.timer, in the image too',
  ),
  'state-nearly-full': transient.disk(
    'The file system of the state directory has too little free space for an update or for measurements.',
    'free space there, or enlarge the state partition',
  ),
  'not-activated': transient.unreachable(
    'This gateway is not activated at the service yet.',
    'the daemon activates it automatically; to activate it now: agent activate',
  ),
  'queue-owned-by-daemon': permanent.tryAgain(
    'The queue belongs to the daemon, and no daemon runs.',
    'systemctl start thing-agent',
  ),
  'unit-missing': permanent.configuration(
    'A unit that has to be active after an update does not exist.',
    'correct [update.health] units; to list the units: systemctl list-unit-files',
  ),
  'agent-replaced': transient.tryAgain(
    'The program of the daemon was replaced, so the daemon stops, and the new one starts.',
    'run the same command again in a few seconds',
  ),
  'board-not-configured': permanent.usage('The configuration has no board of this name.', 'agent mcu list'),
  'no-backup': permanent.refused(
    'There is no backup of the previous image of the board.',
    'flash a file: agent mcu flash NAME FILE',
  ),
}) {}
