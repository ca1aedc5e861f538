import type { VersionRef } from './journal/state.ts';

/**
 * Compares two versions by the semantic versions in their names; a name without a number comes first. Equal ones are
 * compared by their names as text, then by their ids. 0 only for the same version.
 */
export function compareVersions(a: VersionRef, b: VersionRef): number {
  return (
    compareSemanticNames(a.name, b.name) || compareNaturally(a.name, b.name) || compareNaturally(a.id ?? '', b.id ?? '')
  );
}

/** True if a name contains a semantic version. */
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

/** Finds the numbers at the end, or before a prerelease at the end. */
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
