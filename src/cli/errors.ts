import { defineErrors, permanent, transient } from '../system/define-errors.ts';

export class CliError extends defineErrors('CliError', {
  usage: permanent.usage('The command line cannot be understood.'),
  'output-unwritable': transient.disk(
    'The file that a command was to write cannot be written.',
    'check the folder, its permissions and its space',
  ),
  'output-exists': permanent.refused(
    'The file that a command was to write exists already.',
    'name another, or say --overwrite',
  ),
  'output-refused': permanent.refused(
    'What was named as a file to write is a slot or a device, lies on a slot, or is no regular file.',
    'name a file elsewhere, such as in /run',
  ),
  'part-unavailable': transient.failed('A part of a report for a supporter could not be had.'),
  'internal-error': permanent.failed(
    'The agent has a defect.',
    'see its log (journalctl -u thing-agent), and report it',
  ),
}) {}
