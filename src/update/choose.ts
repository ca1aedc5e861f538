import type { Version } from './ports.ts';

/** Which of the versions to which a thing can switch is to be installed. */
export type Choice =
  | { readonly kind: 'newest' }
  | { readonly kind: 'last' }
  | { readonly kind: 'first' }
  | { readonly kind: 'pattern'; readonly pattern: RegExp };

/** `newest` and a pattern never go back behind what is installed, so that two versions cannot take turns for ever. */
export function chooseVersion(
  versions: readonly Version[],
  choice: Choice,
  installedName: string,
): Version | undefined {
  const notOlder = (version: Version): boolean =>
    parseSemanticVersion(version.name) === undefined || compareNames(version.name, installedName) >= 0;
  switch (choice.kind) {
    case 'first':
      return versions[0];
    case 'last':
      return versions.at(-1);
    case 'newest':
      return newest(versions.filter(notOlder));
    case 'pattern':
      return newest(versions.filter((version) => choice.pattern.test(version.name) && notOlder(version)));
  }
}

/** By semantic version of the name; names without one come before all that have one, in the service's order. */
function newest(versions: readonly Version[]): Version | undefined {
  let best: Version | undefined;
  for (const version of versions) {
    if (best === undefined || compareNames(version.name, best.name) >= 0) best = version;
  }
  return best;
}

function compareNames(a: string, b: string): number {
  const left = parseSemanticVersion(a);
  const right = parseSemanticVersion(b);
  if (left === undefined || right === undefined) return Number(left !== undefined) - Number(right !== undefined);
  for (const [index, part] of left.core.entries()) {
    const difference = part - (right.core[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return comparePrereleases(left.prerelease, right.prerelease);
}

interface SemanticVersion {
  readonly core: readonly number[];
  readonly prerelease: readonly string[];
}

/** Semantic Versioning 2.0.0, section 2 and 9, lenient: a prefix such as `v` or `release-`, and missing parts are 0. */
function parseSemanticVersion(name: string): SemanticVersion | undefined {
  const match =
    /(?:^|[^0-9.])(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/.exec(name);
  if (match === null) return undefined;
  const [, major, minor, patch, prerelease] = match;
  const core = [major, minor, patch].map((part) => Number(part ?? 0));
  return { core, prerelease: prerelease === undefined ? [] : prerelease.split('.') };
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
  return left < right ? -1 : Number(left > right);
}
