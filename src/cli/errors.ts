import { defineErrors } from '../system/define-errors.ts';

export class CliError extends defineErrors('CliError', {
  usage: { remedy: 'give-up', exit: 'usage', means: 'The command line cannot be understood.' },
  'internal-error': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The agent has a defect.',
    advice: 'see its log (journalctl -u thing-agent), and report it',
  },
}) {}
