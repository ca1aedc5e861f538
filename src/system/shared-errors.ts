import type { ErrorMeaning } from './define-errors.ts';

/** Codes that more than one room can throw; they stand here since rooms do not import each other. */
export const sharedErrors = {
  'firmware-changed': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The firmware changed while it was read.',
    advice: 'nothing: it is read again from the start',
  },
  'checkpoint-stale': {
    remedy: 'retry',
    exit: 'disk',
    means: 'What an interrupted download had left is not there any more, or of no use; it starts anew.',
  },
  'delta-base': {
    remedy: 'give-up',
    exit: 'refused',
    means:
      'A delta was made from another image than the one that runs, or that changed since: nothing can be rebuilt from it.',
    advice: 'install the whole image of the version; a slot that is written to while it runs takes no deltas',
  },
  'release-revoked': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The release was revoked by a list that a trusted key signed.',
    advice: 'install another release',
  },
  'image-empty': { remedy: 'give-up', exit: 'protocol', means: 'The image is empty.' },
  'writable-by-others': {
    remedy: 'give-up',
    exit: 'configuration',
    means:
      'A key, a password, a program, the configuration or the state directory could be changed by others than root: the file, or a folder on the way to it, belongs to somebody else, or others may write there.',
    advice: 'type the line that the message names, as root, after a look at who wrote there',
  },
  'value-unusable': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'The value cannot be said in JSON, is nested too deeply, or is too long.',
    advice: 'give a value that JSON can express, and a shorter one if it is long',
  },
} as const satisfies Readonly<Record<string, ErrorMeaning>>;
