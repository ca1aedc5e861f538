import { defineErrors } from '../system/define-errors.ts';

export class CliError extends defineErrors('CliError', {
  usage: { remedy: 'give-up', exit: 'usage', means: 'The command line cannot be understood.' },
  'output-unwritable': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The file that a command was to write cannot be written.',
    advice: 'check the folder, its permissions and its space',
  },
  'output-exists': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The file that a command was to write exists already.',
    advice: 'name another, or say --overwrite',
  },
  'output-refused': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'What was named as a file to write is a slot or a device, lies on a slot, or is no regular file.',
    advice: 'name a file elsewhere, such as in /run',
  },
  'file-out-of-reach': {
    remedy: 'give-up',
    exit: 'usage',
    means:
      'A file that a person named can be read by the person, and not by the agent, which runs as a user of its own.',
    advice: 'copy it to where everybody may read, such as /srv, or mount its medium so that everybody may read it',
  },
  'part-unavailable': {
    remedy: 'retry',
    exit: 'failed',
    means: 'A part of a report for a supporter could not be had.',
  },
  'internal-error': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The agent has a defect.',
    advice: 'see its log (journalctl -u thing-agent), and report it',
  },
}) {}
