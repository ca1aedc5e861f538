import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import { AgentError, describeError, systemErrorCode } from '../system/errors.ts';

export class CliError extends defineErrors('CliError', {
  usage: permanent.usage('The command line is invalid.', 'agent --help, or agent help COMMAND'),
  'output-unwritable': transient.disk(
    'The output file cannot be written.',
    'check the directory, its permissions and its free space',
  ),
  'output-exists': permanent.refused('The output file already exists.', 'choose another name, or use --overwrite'),
  'output-refused': permanent.refused(
    'The output file is a slot or a device, is on a slot, or is not a regular file.',
    'choose a file elsewhere, such as in /run',
  ),
  'part-unavailable': transient.failed(
    'A part of a support bundle is not available.',
    'read the reason in the support bundle; the other parts are complete',
  ),
  'not-confirmed': permanent.refused(
    'You did not confirm the operation.',
    'run the command again and answer y, or use --yes',
  ),
  'internal-error': permanent.failed('The agent has a defect.', 'report it, with its log (journalctl -u thing-agent)'),
}) {}

/** Translates the system's error for an output file. Any other error passes through. */
export function translateOutputError(path: string, error: unknown): unknown {
  if (error instanceof AgentError || systemErrorCode(error) === undefined) return error;
  return new CliError('output-unwritable', `cannot write ${path}: ${describeError(error)}`, { cause: error });
}
