import { defineErrors, giveUp, retry } from '../system/define-errors.ts';

export class CliError extends defineErrors('CliError', {
  usage: giveUp.usage('The command line cannot be understood.'),
  'output-unwritable': retry.disk(
    'The file that a command was to write cannot be written.',
    'check the folder, its permissions and its space',
  ),
  'output-exists': giveUp.refused(
    'The file that a command was to write exists already.',
    'name another, or say --overwrite',
  ),
  'output-refused': giveUp.refused(
    'What was named as a file to write is a slot or a device, lies on a slot, or is no regular file.',
    'name a file elsewhere, such as in /run',
  ),
  'part-unavailable': retry.failed('A part of a report for a supporter could not be had.'),
  'internal-error': giveUp.failed('The agent has a defect.', 'see its log (journalctl -u thing-agent), and report it'),
}) {}
