import { searchWithin } from '../../system/pattern.ts';
import { SystemError } from '../../system/system-errors.ts';
import { findFullImage } from '../delta/full-image.ts';
import type { FullImage } from '../delta/full-image.ts';
import type { Installed, UpdateState, VersionRef } from '../journal/state.ts';
import type { ProvisioningService, Version } from '../ports.ts';
import { entryOf } from './holds/versions.ts';

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

/** What is known of lists of keys and revocations. */
export interface KnownLists {
  /** The number of the list in effect; undefined: there is none. */
  readonly number: number | undefined;
  /** How often a list may fail before older ones are considered again. */
  readonly attempts: number;
}

interface Known {
  readonly state: UpdateState;
  readonly lists?: KnownLists;
  /** Default: `same`. */
  readonly wholeImage?: FullImage;
}

/** The version that the service wants this gateway to run; undefined: none, or none is followed. */
export async function findCandidate(
  follow: Follow,
  known: Known,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version | undefined> {
  const named = await findTarget(follow, known, service, signal);
  if (named === undefined || known.wholeImage !== 'updates') return named;
  return findFullImage(named, known.state, service, signal);
}

async function findTarget(
  follow: Follow,
  known: Known,
  service: ProvisioningService,
  signal: AbortSignal,
): Promise<Version | undefined> {
  switch (follow.kind) {
    case 'none':
      return undefined;
    case 'target':
      return service.targetVersion(signal);
    case 'updates':
      return findAmongUpdates(follow.choice, known, service, signal);
  }
}

/** Whether the factory installed this version, and the service has not confirmed yet which of its versions that is. */
function isUnnamed({ version, factory }: Installed): boolean {
  return factory === true && version.id === undefined;
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
  if (installed === undefined || isUnnamed(installed)) return service.currentVersion(signal);
  const from = installed.version.id ?? (await service.currentVersion(signal)).id;
  const versions = (await service.updates(from, signal)).filter(({ id }) => id !== from);
  const list = newestList(versions, state, lists);
  if (list !== undefined) return list;
  const releases = versions.filter(({ name }) => listNumber(name) === undefined);
  return chooseVersion(releases, choice, { id: from, name: installed.version.name });
}

/** Returns the number of a trust list, or undefined. It is recognized by the name that `agent artifact trust` proposes. */
export function listNumber(name: string): number | undefined {
  const [, digits] = /^trust-([1-9]\d{0,14})$/.exec(name) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * The list with the highest number above the one in effect. It comes before any release, unless it was refused
 * repeatedly.
 */
function newestList(
  versions: readonly Version[],
  state: UpdateState,
  { number: known = 0, attempts }: KnownLists = { number: undefined, attempts: 1 },
): Version | undefined {
  const isRefused = (version: Version): boolean => (entryOf(state.versions, { version })?.gaveUp ?? 0) >= attempts;
  const lists = versions.filter((version) => (listNumber(version.name) ?? 0) > known && !isRefused(version));
  return lists.sort((a, b) => (listNumber(b.name) ?? 0) - (listNumber(a.name) ?? 0))[0];
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
      return newest(versions.filter(isNewer));
    case 'pattern': {
      const described = matching(versions, choice.pattern);
      const follows = installed !== undefined && matching([installed], choice.pattern).length > 0;
      return newest(follows ? described.filter(isNewer) : described);
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

function newest(versions: readonly Version[]): Version | undefined {
  let best: Version | undefined;
  for (const version of versions) {
    if (best === undefined || compareVersions(version, best) > 0) best = version;
  }
  return best;
}

/**
 * Compares two versions by the semantic versions in their names; a name without a number comes first. Equal ones are
 * compared by their names as text, then by their ids. 0 only for the same version.
 */
export function compareVersions(a: VersionRef, b: VersionRef): number {
  return (
    compareSemanticNames(a.name, b.name) || compareNaturally(a.name, b.name) || compareNaturally(a.id ?? '', b.id ?? '')
  );
}

/** Whether a name contains a semantic version. */
export function isSemanticName(name: string): boolean {
  return parseSemanticVersion(name) !== undefined;
}

/** Compares only the semantic versions: 0 for names with equal ones, and for two names without one. */
export function compareSemanticNames(a: string, b: string): number {
  const left = parseSemanticVersion(a);
  const right = parseSemanticVersion(b);
  if (left === undefined || right === undefined) return Number(left !== undefined) - Number(right !== undefined);
  for (const [index, part] of left.core.entries()) {
    const difference = part - (right.core[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return comparePrereleases(left.prerelease, right.prerelease);
}

/** Compares texts, with digits in the same place as numbers: debian-9 comes before debian-10. */
function compareNaturally(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(/(\d+)/));
  for (const [index, part] of (left ?? []).entries()) {
    const other = right?.[index];
    if (other === undefined) return 1;
    const difference = index % 2 === 1 ? compareDigits(part, other) : compareTexts(part, other);
    if (difference !== 0) return difference;
  }
  return (left?.length ?? 0) - (right?.length ?? 0) || compareTexts(a, b);
}

/** Compares digits of any length. 7 and 07 count as equal only if nothing else differs. */
function compareDigits(a: string, b: string): number {
  const [left, right] = [a, b].map((digits) => digits.replace(/^0+(?=\d)/, ''));
  return (left?.length ?? 0) - (right?.length ?? 0) || compareTexts(left ?? '', right ?? '');
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

interface SemanticVersion {
  readonly core: readonly number[];
  readonly prerelease: readonly string[];
}

const build = /\+[0-9A-Za-z.-]+$/;
const core = /(?<![0-9.])(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?=-|$)/g;

/**
 * Parses a semantic version (Semantic Versioning 2.0.0, sections 2 and 9) leniently: a prefix such as `v` or `release-`
 * is allowed, and missing parts are 0.
 */
function parseSemanticVersion(name: string): SemanticVersion | undefined {
  const bare = name.replace(build, '');
  return findVersion(bare) ?? (bare === name ? undefined : findVersion(name));
}

/** Finds the numbers that stand at the end, or before a prerelease at the end. */
function findVersion(text: string): SemanticVersion | undefined {
  let from = text.length;
  while (from > 0 && /[0-9A-Za-z.-]/.test(text.charAt(from - 1))) from -= 1;
  for (const { 0: numbers, 1: major, 2: minor, 3: patch, index } of text.matchAll(core)) {
    const end = index + numbers.length;
    const prerelease = text.slice(end + 1);
    if (end < text.length && (end < from || prerelease === '')) continue;
    return {
      core: [major, minor, patch].map((part) => Number(part ?? 0)),
      prerelease: prerelease === '' ? [] : prerelease.split('.'),
    };
  }
  return undefined;
}

/** Semantic Versioning 2.0.0, section 11. */
function comparePrereleases(left: readonly string[], right: readonly string[]): number {
  if (left.length === 0 || right.length === 0) return right.length - left.length;
  for (const [index, part] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    const difference = compareIdentifiers(part, other);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

function compareIdentifiers(left: string, right: string): number {
  const numeric = /^\d+$/;
  const leftIsNumber = numeric.test(left);
  const rightIsNumber = numeric.test(right);
  if (leftIsNumber && rightIsNumber) return Number(left) - Number(right);
  if (leftIsNumber !== rightIsNumber) return leftIsNumber ? -1 : 1;
  return compareTexts(left, right);
}
