import { fromFile, parseTrustListFile } from '../../../../src/firmware/trust/trust-list.ts';

export interface KeptListsState {
  readonly numbers: readonly (number | undefined)[];
  readonly releases: readonly string[];
  readonly keys: readonly string[];
}

export const noLists: KeptListsState = { numbers: [undefined], releases: [], keys: [] };

/** The program's applied trust lists: none is ever forgotten. */
export class KeptLists {
  /** Numbers of the list on the disk: the last acknowledged one, and any written since. */
  readonly numbers: Set<number | undefined>;
  /** Digests of releases that an acknowledged list revoked. */
  readonly releases: Set<string>;
  /** The same of keys, by fingerprint. */
  readonly keys: Set<string>;

  constructor(state: KeptListsState) {
    this.numbers = new Set(state.numbers);
    this.releases = new Set(state.releases);
    this.keys = new Set(state.keys);
  }

  get state(): KeptListsState {
    return { numbers: [...this.numbers], releases: [...this.releases], keys: [...this.keys] };
  }

  async taking(bytes: Uint8Array, take: () => Promise<unknown>): Promise<void> {
    const { number, revoked } = fromFile(parseTrustListFile(bytes));
    this.numbers.add(number);
    await take();
    this.found(number);
    for (const release of revoked.releases) this.releases.add(release);
    for (const key of revoked.keys) this.keys.add(key);
  }

  /** By this it went since: no cut may take it away again. */
  found(number: number | undefined): void {
    this.numbers.clear();
    this.numbers.add(number);
  }
}
