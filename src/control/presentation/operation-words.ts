import type { LongOperationName } from '../long-operations.ts';

/** Separate from the table, since a command prints them before it loads a schema. */
interface OperationWords {
  /** The name of the running operation in a sentence. */
  readonly title: string;
  /** The activity before the first phase is known: "Busy: …". */
  readonly doing: string;
}

export const operationWords: Readonly<Record<LongOperationName, OperationWords>> = {
  update: { title: 'an update', doing: 'checking for updates' },
  install: { title: 'the installation of a file', doing: 'installing a file' },
  commit: { title: 'a commit', doing: 'committing the trial' },
  rollback: { title: 'a rollback', doing: 'rolling back' },
  cancel: { title: 'a cancellation', doing: 'cancelling' },
  flash: { title: 'the flashing of a board', doing: 'flashing' },
  restore: { title: 'the restoring of a board', doing: 'flashing' },
};
