import { permanent, transient } from './define-errors.ts';

/** Codes that more than one module can throw; they are here since modules do not import each other. */
export const sharedErrors = {
  'firmware-changed': transient.tryAgain(
    'The encoded firmware changed while it was read.',
    'no action needed: the download starts again',
  ),
  'checkpoint-stale': transient.disk(
    'The rest of an interrupted download is missing or unusable; the download starts again.',
    'nothing: the agent downloads it again',
  ),
  'delta-base-mismatch': permanent.refused(
    'A delta was made from an image other than the running one, or the running image was modified: nothing can be rebuilt from it.',
    'install the whole image of the version; deltas need a slot that is not written to while it runs',
  ),
  'release-revoked': permanent.refused(
    'The release was revoked by a list that a trusted key signed.',
    'install another release',
  ),
  'file-changed': transient.tryAgain('A file is being written to while it is read.', 'wait until it is complete'),
  'file-unreadable': permanent.usage('A file cannot be read.', 'check the path: a regular file that you may read'),
  'image-empty': permanent.protocol(
    'The image is empty.',
    'copy or download the file again; if it fails again, build the release again',
  ),
  'writable-by-others': permanent.configuration(
    'A key, a password, a program, the configuration or the state directory could be changed by others than root: the file, or a directory on the way to it, belongs to another user, or others may write there.',
    'check who changed it, then run the command in the message as root',
  ),
  'value-invalid': permanent.usage(
    'The value has no JSON form, is nested too deeply, or is too long.',
    'use a shorter value that has a JSON form',
  ),
};
