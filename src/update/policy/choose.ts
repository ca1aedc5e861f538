import { AgentError } from '../../system/errors.ts';
import { searchWithin } from '../../system/pattern.ts';
import { SystemError } from '../../system/system-errors.ts';
import type { UpdateState, VersionRef } from '../journal/state.ts';
import { entryOf } from '../journal/versions.ts';
import type { ProvisioningService, Version } from '../ports.ts';
import { compareVersions } from '../version-order.ts';
import { checksLeft, pauseLeft } from './backoff.ts';

/** Which of the versions that the service offers is to be installed. */
export type Choice =
  | { readonly kind: 'newest' }
  | { readonly kind: 'last' }
  | { readonly kind: 'first' }
  | { readonly kind: 'pattern'; readonly pattern: RegExp };

export type Follow =
  | { readonly kind: 'target' }
  | { readonly kind: 'updates'; readonly choice: Choice }
  | { readonly kind: 'none' };

/** The known trust lists. */
export interface KnownLists {
  /** The number of the list in effect, if there is one. */
  readonly number: number | undefined;
  readonly nowMs: number;
  /** False if a version with the name of a list is not a list, or cannot be read now. */
  readonly isGenuine: (version: Version) => Promise<boolean>;
}

interface Known {
  readonly state: UpdateState;
  readonly lists?: KnownLists;
  /** Default: `same`. */
  readonly wholeImage?: FullImage;
}

/**
 * Returns the version that the service assigns to this gateway. Undefined if there is none, or if the gateway follows
 * none.
 */
export async function findCandidate(
  follow: Follow,
  known: Known,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version | undefined> {
  if (follow.kind === 'none') return undefined;
  const isTarget = follow.kind === 'target';
  const named = await (isTarget
    ? service.targetVersion(signal)
    : findAmongUpdates(follow.choice, known, service, signal));
  if (named === undefined || known.wholeImage !== 'updates') return named;
  return findFullImage(named, known.state, service, signal);
}

/**
 * Chooses among the versions to which the installed one can be switched; before anything is installed, the service's
 * current version.
 */
async function findAmongUpdates(
  choice: Choice,
  { state, lists }: Known,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version | undefined> {
  const { installed } = state;
  // the service has not confirmed yet which of its versions the factory installed
  const isUnnamed = installed?.factory === true && installed.version.id === undefined;
  if (installed === undefined || isUnnamed) return service.currentVersion(signal);
  const from = installed.version.id ?? (await service.currentVersion(signal)).id;
  const versions = (await service.updates(from, signal)).filter(({ id }) => id !== from);
  for (const list of dueLists(versions, state, lists).slice(0, MAX_LIST_PROBES))
    if ((await lists?.isGenuine(list)) !== false) return list;
  const releases = versions.filter(({ name }) => listNumber(name) === undefined);
  return chooseVersion(releases, choice, { id: from, name: installed.version.name });
}

/** Returns the number of a trust list, or undefined. It is recognized by the name that `agent artifact trust` proposes. */
export function listNumber(name: string): number | undefined {
  const [, digits] = /^trust-([1-9]\d{0,14})$/.exec(name) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/** The number of versions of which one check asks whether they are trust lists. */
export const MAX_LIST_PROBES = 3;

/** With this number of failed lists, releases and lists take turns. */
const MANY_FAILED_LISTS = 16;

/** Returns the number of checks without any list, so that a flood of misnamed releases does not stop the others. */
export function listPauseLeft(versions: UpdateState['versions'], nowMs: number): number {
  const failed = failedLists(versions);
  const last = failed.at(-1);
  return last === undefined || failed.length < MANY_FAILED_LISTS ? 0 : checksLeft(last, 1, nowMs);
}

function failedLists(versions: UpdateState['versions']): UpdateState['versions'] {
  return versions.filter(({ version, failed }) => failed > 0 && listNumber(version.name) !== undefined);
}

/**
 * Returns the lists with a higher number than the list in effect, highest first. They come before any release. A list
 * that failed is skipped during its retry backoff, and those below it come first, so that misnamed releases delay
 * neither the others nor a good list.
 */
function dueLists(
  versions: readonly Version[],
  { versions: entries, phase }: UpdateState,
  known?: KnownLists,
): Version[] {
  const nowMs = known?.nowMs ?? Number.NaN;
  if (phase.kind === 'idle' && listPauseLeft(entries, nowMs) > 0) return [];
  const isPaused = (version: Version): boolean => {
    const entry = entryOf(entries, { version });
    return entry !== undefined && pauseLeft(entry, nowMs) > 0;
  };
  const number = ({ name }: VersionRef): number => listNumber(name) ?? 0;
  const last = failedLists(entries).at(-1);
  const isNext = (version: Version): boolean => last === undefined || number(version) < number(last.version);
  const lists = versions.filter((version) => number(version) > (known?.number ?? 0) && !isPaused(version));
  return lists.sort((a, b) => Number(isNext(b)) - Number(isNext(a)) || number(b) - number(a));
}

/**
 * Chooses a version. `newest` takes only versions that come after the installed one, in a total order, so that no two
 * versions can replace each other again and again, whatever their names and the service's order. `pattern` does the
 * same among the names that it matches; from a name that it does not match, it leads to the newest match.
 */
export function chooseVersion(
  versions: readonly Version[],
  choice: Choice,
  installed: VersionRef | undefined,
): Version | undefined {
  const isNewer = (version: Version): boolean => installed === undefined || compareVersions(version, installed) > 0;
  switch (choice.kind) {
    case 'first':
      return versions[0];
    case 'last':
      return versions.at(-1);
    case 'newest':
      return versions.filter(isNewer).sort(compareVersions).at(-1);
    case 'pattern': {
      const described = matching(versions, choice.pattern);
      const follows = installed !== undefined && matching([installed], choice.pattern).length > 0;
      return (follows ? described.filter(isNewer) : described).toSorted(compareVersions).at(-1);
    }
  }
}

/** The time for matching all names together. */
const PATTERN_MS = 1_000;

function matching<T extends Pick<Version, 'name'>>(versions: readonly T[], pattern: RegExp): readonly T[] {
  const names = versions.map(({ name }) => name);
  const found = searchWithin(pattern, names, PATTERN_MS);
  if (found !== undefined) return versions.filter((_, index) => found[index] !== null);
  throw new SystemError('pattern-too-slow', `[update] choose: ${String(pattern)} needs more than ${PATTERN_MS} ms`);
}

/**
 * The place of the full image after a delta did not fit: among the `updates` of the service, or under the same
 * version.
 */
export type FullImage = 'updates' | 'same';

/**
 * Returns the version that the service assigns or, if its delta did not fit the running one, another version of this
 * name in the service's list.
 */
async function findFullImage(
  offered: Version,
  state: UpdateState,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version> {
  if (!isRejected(state, offered.id)) return offered;
  const listed = await listUpdates(state, service, signal);
  return listed.find(({ id, name }) => name === offered.name && !isRejected(state, id)) ?? offered;
}

function isRejected({ unfit }: UpdateState, versionId: string): boolean {
  return unfit?.versions.includes(versionId) === true;
}

/** Returns the service's list of updates; empty if it has none, so that the assigned version is requested again. */
async function listUpdates(
  { installed }: UpdateState,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<readonly Version[]> {
  try {
    const from = installed?.version.id ?? (await service.currentVersion(signal)).id;
    return await service.updates(from, signal);
  } catch (error) {
    if (error instanceof AgentError && error.remedy === 'give-up') return [];
    throw error;
  }
}
