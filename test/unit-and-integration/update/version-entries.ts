import type { UpdateState, VersionEntry } from '../../../src/update/journal/state.ts';

/** A ledger entry for tests. */
export function entryWith(change: Partial<VersionEntry> & Pick<VersionEntry, 'version'>): VersionEntry {
  return { begun: 0, failed: 0, gaveUp: 0, ...change };
}

/** Blocked versions, whether or not their time has passed. */
export function blockedIn({ versions }: Pick<UpdateState, 'versions'>) {
  return versions.flatMap(({ version, digest, bad }) => (bad === undefined ? [] : [{ version, digest, ...bad }]));
}
