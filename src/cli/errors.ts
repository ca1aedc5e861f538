import { defineErrors } from '../system/define-errors.ts';

export class CliError extends defineErrors('CliError', {
  usage: { remedy: 'give-up', exit: 'usage', means: 'The command line cannot be understood.' },
  'output-unwritable': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The file that a command was to write cannot be written.',
    advice: 'check the folder, its permissions and its space',
  },
  'internal-error': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The agent has a defect.',
    advice: 'see its log (journalctl -u thing-agent), and report it',
  },
}) {}
