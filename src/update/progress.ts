import type { BoardProgress } from './ports.ts';
import type { TransferProgress } from './ports/incoming.ts';

/** The progress that a person and `status` can follow. */
export type UpdateProgress =
  | { readonly kind: 'phase'; readonly phase: ProgressPhase; readonly detail?: string | undefined }
  | ({ readonly kind: 'transfer' } & TransferProgress)
  | ({ readonly kind: 'board' } & BoardProgress);

export type ProgressPhase =
  | 'checking'
  | 'staging'
  | 'verifying'
  | 'staged'
  | 'rebooting'
  | 'health'
  | 'flashing'
  | 'committing'
  | 'rolling-back'
  | 'switching'
  | 'done';
