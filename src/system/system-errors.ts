import { defineErrors, permanent, transient } from './define-errors.ts';
import { sharedErrors } from './shared-errors.ts';

/** The operating system, or one of its programs, does not do what the agent needs. */
export class SystemError extends defineErrors('SystemError', {
  'disk-full': transient.disk('A state file cannot be written: the disk is full.', 'free space on that file system'),
  'state-unavailable': transient.disk(
    'A state file cannot be read or written, or would be lost with the power: its partition is not mounted.',
    'check that the state partition is mounted, its file system, and its permissions',
  ),
  'agent-busy': transient.tryAgain(
    'Another operation, or another agent, is running.',
    'wait until it has finished; only one runs at a time',
  ),
  'lock-unavailable': permanent.failed(
    'The lock that prevents two agents from working simultaneously is not available.',
    'run as root, and check that the program flock (util-linux) is installed',
  ),
  'boot-id-unknown': permanent.failed(
    'The boot ID of the machine is unknown, so a reboot cannot be detected.',
    'check that /proc is mounted',
  ),
  'pattern-too-slow': permanent.configuration(
    'A regular expression of the configuration did not finish in time.',
    'avoid nested repetitions, such as (a+)+',
  ),
  'time-zone-unsupported': permanent.configuration(
    'The runtime does not know the time zone of the system, so windows and schedules would be at other times.',
    'set a time zone, such as Europe/Berlin: in TZ, if the environment has that, or with timedatectl set-timezone',
  ),
  'reboot-failed': transient.failed(
    'The command that reboots the machine failed.',
    'list programs that block it: systemd-inhibit --list; check the command: [system] reboot_command. For a staged update the agent tries again after 1, 2, 4 and at most 60 minutes, or with the next update check if you started the update; to reboot now: agent reboot',
  ),
  'file-changed': sharedErrors['file-changed'],
  'file-unreadable': sharedErrors['file-unreadable'],
  'writable-by-others': sharedErrors['writable-by-others'],
  'user-unavailable': permanent.configuration(
    'A program cannot run with the rights of the user that the configuration names for it.',
    'start the agent as root, or omit user',
  ),
  'program-missing': transient.failed(
    'A program cannot be started.',
    'install the program, or correct its path in the configuration',
  ),
  'program-timeout': transient.failed(
    'A program did not end in time.',
    'run the program yourself to see what it waits for; or raise its timeout in the configuration',
  ),
  'program-output-too-large': transient.failed(
    'A program printed too much output.',
    'reduce the output of the program',
  ),
  'notify-failed': transient.failed(
    "systemd could not be notified of the agent's state.",
    'check that systemd-notify is installed, and that the unit has NotifyAccess=all',
  ),
  'serial-number-unknown': permanent.configuration(
    'The serial number of this gateway is unknown.',
    'run agent setup, or set [device] serial_number or serial_number_file',
  ),
}) {}
