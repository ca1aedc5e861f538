import { defineErrors } from './define-errors.ts';
import { sharedErrors } from './shared-errors.ts';

/** The operating system, or one of its programs, does not do what the agent needs. */
export class SystemError extends defineErrors('SystemError', {
  'disk-full': {
    remedy: 'retry',
    exit: 'disk',
    means: 'A state file cannot be written: the disk is full.',
    advice: 'make room on that file system',
  },
  'state-unavailable': {
    remedy: 'retry',
    exit: 'disk',
    means: 'A state file cannot be read or written, or would be gone with the power: its partition is not mounted.',
    advice: 'check that the state partition is mounted, its file system, and its permissions',
  },
  'agent-busy': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'Another operation, or another agent, is at work.',
    advice: 'wait until it is done; one agent works at a time',
  },
  'lock-unavailable': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The lock that keeps two agents from working at once cannot be had.',
    advice: 'run as root, and check that the program flock (util-linux) is installed',
  },
  'boot-id-unknown': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'It cannot be known whether the machine was booted since.',
    advice: 'check that /proc is mounted',
  },
  'pattern-too-slow': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'A regular expression of the configuration does not come to an end in its time.',
    advice: 'write it without a repetition within a repetition, such as (a+)+',
  },
  'reboot-failed': {
    remedy: 'retry',
    exit: 'failed',
    means: 'The command that reboots the machine failed.',
    advice:
      'see who holds it back: systemd-inhibit --list; or what is run: [system] reboot_command. For a staged firmware the agent tries again, after 1, 2, 4 and at most 60 minutes, or with the next look where a person had asked for it; at once: agent reboot',
  },
  'writable-by-others': sharedErrors['writable-by-others'],
  'user-not-possible': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'A program cannot run with the rights of the user that the configuration names for it.',
    advice: 'start the agent as root, or leave user out',
  },
  'program-missing': { remedy: 'retry', exit: 'failed', means: 'A program cannot be started.' },
  'program-timeout': { remedy: 'retry', exit: 'failed', means: 'A program did not end in time.' },
  'program-too-loud': { remedy: 'retry', exit: 'failed', means: 'A program printed more than it may.' },
  'notify-failed': { remedy: 'retry', exit: 'failed', means: 'systemd could not be told how the agent is.' },
  'serial-number-unknown': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The serial number of this gateway is not known.',
    advice: 'let agent setup ask for it, or set [device] serial_number or serial_number_file',
  },
}) {}
