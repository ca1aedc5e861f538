import { UpdateError } from '../errors.ts';
import type { Floor } from '../journal/state.ts';
import type { FirmwareHeader, ImageClaims } from '../ports.ts';
import { compareSemanticNames, isSemanticName } from './choose.ts';

/** `[trust] names` and `downgrade`: which name a signed release may have, and whether it may be an older one. */
export interface ReleaseSettings {
  readonly nameCheck: 'strict' | 'off';
  /** Undefined: an older release may be installed, but not by operators. */
  readonly downgrade?: 'allow' | 'refuse' | undefined;
}

/** What a signed release says of itself. */
export interface ReleaseClaims {
  readonly signedBy?: string | undefined;
  readonly name?: string | undefined;
  readonly securityVersion?: number | undefined;
}

export interface ReleaseCircumstances {
  readonly settings: ReleaseSettings;
  /** The service's name for it; undefined: a person brought the file. */
  readonly offeredName: string | undefined;
  readonly floor: Floor | undefined;
  /** True: root has allowed a downgrade, this once. False: an operator brought the file. */
  readonly allowDowngrade: boolean | undefined;
}

/**
 * Guarantee `floors`: refuses a signed release under another name than its own, and one below the floor. So somebody who
 * can serve firmware, but not sign it, can neither rename an old release nor bring back one with a known hole. Unsigned
 * firmware claims nothing that could be believed; whether it may be installed was decided before. Returns why it is
 * below the floor if root allowed that.
 */
export function refuseRelease(header: FirmwareHeader, circumstances: ReleaseCircumstances): string | undefined {
  const { name, signedBy } = header;
  if (signedBy === undefined || name === undefined) return undefined;
  const { settings, offeredName, floor, allowDowngrade } = circumstances;
  if (settings.nameCheck === 'strict' && offeredName !== undefined && name !== offeredName) {
    throw new UpdateError(
      'name-mismatch',
      `the service offers ${JSON.stringify(offeredName)}, but the release is signed as ${JSON.stringify(name)}`,
    );
  }
  // a list has its own number, which only rises
  const isBound = floor !== undefined && header.kind !== 'trust-list';
  const why = isBound ? belowFloor(header, floor, policyFor(settings, allowDowngrade)) : undefined;
  if (why === undefined || allowDowngrade === true) return why;
  throw new UpdateError('downgrade', `release ${JSON.stringify(name)} ${why}`);
}

type DowngradePolicy = Pick<ReleaseSettings, 'downgrade'>;

/** Guarantee `access`: operators bring no older release, unless the configuration allows it. */
function policyFor({ downgrade }: DowngradePolicy, allowDowngrade: boolean | undefined): DowngradePolicy {
  return { downgrade: downgrade ?? (allowDowngrade === false ? 'refuse' : 'allow') };
}

/** Why the release is too old, worded as the end of a sentence; undefined: it is not. */
export function belowFloor(
  { name, securityVersion }: ReleaseClaims,
  floor: Floor,
  { downgrade }: DowngradePolicy,
): string | undefined {
  const lowest = floor.securityVersion;
  if (lowest !== undefined && (securityVersion ?? 0) < lowest) {
    const has = securityVersion === undefined ? 'no security version' : `security version ${securityVersion}`;
    return `has ${has}, and ${lowest} was installed before`;
  }
  if (downgrade !== 'refuse' || floor.name === undefined) return undefined;
  if (name === undefined || !isSemanticName(name)) return 'has no semantic version as its name';
  return compareSemanticNames(name, floor.name) < 0
    ? `is older than ${floor.name}, which was installed before`
    : undefined;
}

/** Guarantee `floors`: the floor after a release was committed. It never falls, and only signed releases raise it. */
export function raiseFloor(floor: Floor | undefined, release: ReleaseClaims): Floor | undefined {
  if (release.signedBy === undefined) return floor;
  const { name, securityVersion } = release;
  const numbers = [floor?.securityVersion, securityVersion].filter((number) => number !== undefined);
  const names = [floor?.name, name].filter((text) => text !== undefined && isSemanticName(text));
  const [first, second = first] = names;
  const highest =
    first === undefined || second === undefined || compareSemanticNames(first, second) >= 0 ? first : second;
  return { securityVersion: numbers.length === 0 ? undefined : Math.max(...numbers), name: highest };
}

/** The image that a board is to get. */
interface BoardImage extends ImageClaims {
  readonly target: string;
  readonly kind: 'slots' | 'mcu' | 'package';
}

interface BoardImages {
  readonly name?: string | undefined;
  readonly payloads: readonly BoardImage[];
}

/** The highest values that were committed on each board, by its name. */
export interface BoardFloors {
  readonly boardFloors?: Readonly<Record<string, number>> | undefined;
  readonly boardVersions?: Readonly<Record<string, string>> | undefined;
}

/**
 * Guarantee `floors`: refuses an image for MCUboot below the highest security counter committed on its board and, with
 * `downgrade = "refuse"`, one of an older version. A missing counter counts as 0, as for MCUboot. Returns why it is
 * below if root allowed that.
 */
export function refuseOldBoards(
  { name, payloads }: BoardImages,
  floors: BoardFloors,
  settings: DowngradePolicy,
  { allowDowngrade }: { readonly allowDowngrade?: boolean | undefined } = {},
): string | undefined {
  const policy = policyFor(settings, allowDowngrade);
  for (const payload of payloads) {
    const why = payload.kind === 'mcu' ? belowBoardFloor(payload, floors, policy) : undefined;
    if (why === undefined) continue;
    if (allowDowngrade === true) return why;
    throw new UpdateError(
      'downgrade',
      `${name === undefined ? 'the image' : `release ${JSON.stringify(name)}`} ${why}`,
    );
  }
  return undefined;
}

function belowBoardFloor(
  { target, securityCounter, imageVersion }: BoardImage,
  { boardFloors = {}, boardVersions = {} }: BoardFloors,
  { downgrade }: DowngradePolicy,
): string | undefined {
  const lowest = boardFloors[target];
  if (lowest !== undefined && (securityCounter ?? 0) < lowest) {
    const has = securityCounter === undefined ? 'no security counter' : `security counter ${securityCounter}`;
    return `has ${has} for ${target}, and ${lowest} was installed before`;
  }
  const version = boardVersions[target];
  if (downgrade !== 'refuse' || version === undefined) return undefined;
  if (imageVersion === undefined) return `has no image for MCUboot for ${target}, and ${version} was installed before`;
  return compareSemanticNames(imageVersion, version) < 0
    ? `has version ${imageVersion} for ${target}, which is older than ${version}, which was installed before`
    : undefined;
}

/** Like `raiseFloor`, for each board. */
export function raiseBoardFloors(
  { boardFloors, boardVersions }: BoardFloors,
  { signedBy, payloads }: Pick<ReleaseClaims, 'signedBy'> & { readonly payloads: readonly BoardImage[] },
): BoardFloors {
  const [counters, versions] = [{ ...boardFloors }, { ...boardVersions }];
  for (const { target, kind, securityCounter, imageVersion } of signedBy === undefined ? [] : payloads) {
    if (kind !== 'mcu') continue;
    if (securityCounter !== undefined) counters[target] = Math.max(securityCounter, counters[target] ?? 0);
    if (imageVersion !== undefined && compareSemanticNames(imageVersion, versions[target] ?? '') > 0)
      versions[target] = imageVersion;
  }
  return { boardFloors: filled(counters), boardVersions: filled(versions) };
}

function filled<T extends object>(record: T): T | undefined {
  return Object.keys(record).length === 0 ? undefined : record;
}
