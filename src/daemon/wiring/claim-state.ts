import { join } from 'node:path';

import type { FileIdentityStore } from '../../service/identity.ts';
import { AgentError, mapError, systemErrorCode, undefinedIfMissing } from '../../system/errors.ts';
import { nodeFs, readTextFile, replaceFileDurably, StorageError } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Log } from '../../system/log/log.ts';
import type { Journal } from '../../update/journal/journal.ts';

/**
 * Files that belong to the identity of a gateway, and not to its slots and boards. The write-ahead log of a database
 * moves before it, so that no later database is opened with it.
 */
const OWNED = ['queue.db-shm', 'queue.db-wal', 'queue.db', 'history.json', 'machine-id'];

export interface ClaimedState {
  readonly stateDirectory: string;
  readonly identities: Pick<FileIdentityStore, 'foreignOwner' | 'setAsideForeign'>;
  readonly log: Log;
  readonly fs?: DurableFs & Pick<typeof nodeFs, 'mkdir'>;
}

/**
 * Guarantee `other-hardware`: sets aside what an identity of another serial number left in the state directory, before
 * anything of it is opened: after a cloned card or a replaced board, nothing of it is delivered as this gateway's.
 * Returns what remains to be done once the journal is open. The identity moves last: after a power cut all is repeated.
 */
export async function claimState(claimed: ClaimedState): Promise<(journal: Journal) => Promise<void>> {
  const { stateDirectory, identities, log, fs = nodeFs } = claimed;
  const owner = await valueOrLogged(async () => identities.foreignOwner(), log);
  if (owner === undefined) return async () => {};
  const aside = join(stateDirectory, `of-${owner.replaceAll(/[^\w-]/g, '_').slice(0, 64)}`);
  log.warn(
    { owner, aside },
    'the state directory belongs to another serial number: its identity and history are set aside',
  );
  const isMoved = await valueOrLogged(async () => moveOwned(stateDirectory, aside, fs), log);
  return async (journal) => {
    if (isMoved !== true) return;
    await valueOrLogged(async () => {
      await journal.append({ type: 'identity-changed' });
      await identities.setAsideForeign();
    }, log);
  };
}

async function moveOwned(stateDirectory: string, aside: string, fs: NonNullable<ClaimedState['fs']>): Promise<true> {
  await fs.mkdir(aside, { mode: 0o700, recursive: true });
  for (const name of OWNED) {
    const moving = undefinedIfMissing(fs.rename(join(stateDirectory, name), join(aside, name)));
    await mapError(moving, (error) => new StorageError('set aside into', aside, error));
  }
  const copy = join(aside, 'journal.json');
  const journal = await readTextFile(join(stateDirectory, 'journal.json'), fs);
  if (journal !== undefined && (await readTextFile(copy, fs)) === undefined)
    await replaceFileDurably(copy, journal, fs, 0o600);
  return true;
}

/** A state directory that fails stops no agent: a trial without it has to be judged. `identity-foreign` stops delivery. */
async function valueOrLogged<T>(step: () => Promise<T>, log: Log): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof AgentError) && systemErrorCode(error) === undefined) throw error;
    const { code, message } = error instanceof AgentError ? error : new StorageError('set aside', 'the state', error);
    log.error({ code }, `the state of another serial number cannot be set aside: ${message}`);
    return undefined;
  }
}
