import type { LongOperationName } from '../long-operations.ts';

/** Apart from their entries, since a command says them before it needs a schema. */
interface OperationWords {
  /** What people call this operation while it runs. */
  readonly title: string;
  /** What the agent is at, before the first phase is known: "Busy: …". */
  readonly doing: string;
}

export const operationWords: Readonly<Record<LongOperationName, OperationWords>> = {
  update: { title: 'an update', doing: 'looking for an update' },
  install: { title: 'the installation of a file', doing: 'installing a file' },
  commit: { title: 'a commit', doing: 'keeping the firmware on trial' },
  rollback: { title: 'a rollback', doing: 'going back' },
  cancel: { title: 'a cancellation', doing: 'cancelling' },
  flash: { title: 'the flashing of a board', doing: 'flashing' },
  restore: { title: 'the restoring of a board', doing: 'flashing' },
};
