import * as z from 'zod';

import { allowDowngrade, filePath, identifier, installFlags, emptyReply } from './api/operation-parts.ts';

/** A long operation, begun by a POST. Only one runs at a time (operation-runner.ts). */
export interface LongOperation {
  /** What it does, for somebody who writes a program. */
  readonly summary: string;
  readonly path: string;
  readonly input: z.ZodObject;
  /** The content of a file is the body of the request, so that the daemon opens no file that a client names. */
  readonly takesFile?: true;
}

/** The part of operations.ts that takes its time, and can be followed. */
export const longOperations = {
  update: {
    summary: 'Looks at the service now, and installs what it wants.',
    path: 'update',
    input: installFlags(),
  },
  install: {
    summary: 'Installs an artifact or an image that is sent as a file, under the same rules.',
    path: 'install',
    input: installFlags().extend({
      path: filePath(),
      allowDowngrade: allowDowngrade(),
    }),
    takesFile: true,
  },
  commit: {
    summary: 'Keeps a trial without waiting for the health gate.',
    path: 'commit',
    input: emptyReply(),
  },
  rollback: {
    summary: 'Ends a trial, or goes back to what was installed before.',
    path: 'rollback',
    input: installFlags(),
  },
  cancel: {
    summary: 'Ends a download, or a wait for a reboot. The version is installed again only when a person asks for it.',
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
      keep: z.literal(false).optional().describe('What the board holds is not copied out first.'),
    }),
    takesFile: true,
  },
  restore: {
    summary: 'Puts back what a board held before it was flashed last.',
    path: 'restore',
    input: z.strictObject({ board: identifier() }),
  },
} as const satisfies Readonly<Record<string, LongOperation>>;

export type LongOperationName = keyof typeof longOperations;

/** For what crosses the socket. */
export const followedName = z.enum(Object.keys(longOperations).filter(isFollowed));

function isFollowed(name: string): name is LongOperationName {
  return Object.hasOwn(longOperations, name);
}
