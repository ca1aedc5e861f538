import * as z from 'zod';

import { allowDowngrade, filePath, identifier, installFlags, emptyReply } from './api/operation-parts.ts';

/** A long operation, started by a POST. Only one runs at a time (operation-runner.ts). */
export interface LongOperation {
  /** The effect, for developers of client programs. */
  readonly summary: string;
  readonly path: string;
  readonly input: z.ZodObject;
  /** The content of a file is the body of the request, so that the daemon opens no file that a client names. */
  readonly takesFile?: true;
}

/** The long operations of operations.ts, whose progress can be followed. */
export const longOperations = {
  update: {
    summary: 'Queries the service now and installs the assigned version.',
    path: 'update',
    input: installFlags(),
  },
  install: {
    summary:
      'Installs an artifact or an image that is sent as a file, with the same checks as an update from the service.',
    path: 'install',
    input: installFlags().extend({
      path: filePath(),
      allowDowngrade: allowDowngrade(),
    }),
    takesFile: true,
  },
  commit: {
    summary: 'Commits a trial without waiting for the health checks.',
    path: 'commit',
    input: emptyReply(),
  },
  rollback: {
    summary: 'Ends a trial, or rolls back to the previous version.',
    path: 'rollback',
    input: installFlags(),
  },
  cancel: {
    summary: 'Cancels a download or a pending reboot. The version is only installed again on request.',
    path: 'cancel',
    input: emptyReply(),
  },
  flash: {
    summary: 'Flashes a board with a file that is sent.',
    path: 'flash',
    input: z.strictObject({
      board: identifier(),
      path: filePath(),
      allowDowngrade: allowDowngrade(),
      keep: z.literal(false).optional().describe('false: do not back up the board first.'),
    }),
    takesFile: true,
  },
  restore: {
    summary: 'Restores the previous image of a board.',
    path: 'restore',
    input: z.strictObject({ board: identifier() }),
  },
} as const satisfies Readonly<Record<string, LongOperation>>;

export type LongOperationName = keyof typeof longOperations;

export const followedName = z.enum(Object.keys(longOperations).filter(isFollowed));

function isFollowed(name: string): name is LongOperationName {
  return Object.hasOwn(longOperations, name);
}
