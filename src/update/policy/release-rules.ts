import { UpdateError } from '../errors.ts';
import type { FirmwareRecord, Floor, Floors } from '../journal/state.ts';
import type { FirmwareHeader } from '../ports.ts';
import { compareSemanticNames, isSemanticName } from '../version-order.ts';
import type { InstallRequest } from './install-request.ts';

/** `[trust] names` and `downgrade`: which name a signed release may have, and whether it may be an older one. */
export interface ReleaseSettings {
  readonly nameCheck: 'strict' | 'off';
  /** If omitted, an older release may be installed, but not by operators. */
  readonly downgrade?: 'allow' | 'refuse' | undefined;
}

/** `allowDowngrade`: true if root has allowed a downgrade, this once; false if an operator brought the file. */
type Permission = Pick<InstallRequest, 'allowDowngrade'>;

/**
 * Guarantee `floors`: rejects a signed release under another name than its own, so that an attacker who can serve
 * firmware, but not sign it, cannot rename an old one; and a release under the name of a trust list.
 */
export function refuseMisnamed(
  { kind, name, signedBy }: FirmwareHeader,
  { by, version, isList }: Pick<InstallRequest, 'by' | 'version' | 'isList'>,
  { nameCheck }: Pick<ReleaseSettings, 'nameCheck'>,
): void {
  if (isList === true && kind !== 'trust-list')
    throw new UpdateError('trust-list-mismatch', `${version.name} is not the list that it was a moment ago`);
  const isBound = by === 'service' && nameCheck === 'strict' && signedBy !== undefined && name !== undefined;
  if (!isBound || name === version.name) return;
  throw new UpdateError(
    'name-mismatch',
    `the service offers ${JSON.stringify(version.name)}, but the release is signed as ${JSON.stringify(name)}`,
  );
}

/**
 * Guarantee `floors`: rejects a release below the minimum version, so that an attacker who can serve firmware, but not
 * sign it, cannot offer one with a known hole again. Unsigned firmware has no claims; whether it may be installed was
 * decided before. Returns why it is below the minimum if root allowed that.
 */
export function refuseRelease(
  header: FirmwareHeader,
  { floor }: Pick<Floors, 'floor'>,
  settings: DowngradePolicy,
  { allowDowngrade }: Permission,
): string | undefined {
  const { name, signedBy } = header;
  if (signedBy === undefined || name === undefined) return undefined;
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

/** Returns why the release is too old, worded as the end of a sentence, if it is. */
export function belowFloor(
  { name, securityVersion }: Floor,
  floor: Floor,
  { downgrade }: DowngradePolicy,
): string | undefined {
  const lowest = floor.securityVersion;
  if (lowest !== undefined && (securityVersion ?? 0) < lowest) {
    const has = securityVersion === undefined ? 'no security version' : `security version ${securityVersion}`;
    return `has ${has}, and ${lowest} was installed before`;
  }
  const { name: oldest = floor.factory } = floor;
  if (downgrade !== 'refuse' || oldest === undefined) return undefined;
  if (name === undefined || !isSemanticName(name)) return 'has no semantic version as its name';
  return compareSemanticNames(name, oldest) < 0 ? `is older than ${oldest}, which was installed before` : undefined;
}

type BoardImage = Pick<FirmwareRecord['payloads'][number], 'target' | 'kind' | 'securityCounter' | 'imageVersion'>;

interface BoardImages {
  readonly name?: string | undefined;
  readonly payloads: readonly BoardImage[];
}

/**
 * Guarantee `floors`: refuses an image for MCUboot below the highest security counter committed on its board and, with
 * `downgrade = "refuse"`, one of an older version. A missing counter counts as 0, as for MCUboot. Returns why it is
 * below if root allowed that.
 */
export function refuseOldBoards(
  { name, payloads }: BoardImages,
  floors: Pick<Floors, 'boardFloors'>,
  settings: DowngradePolicy,
  { allowDowngrade }: Permission,
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
  { boardFloors }: Pick<Floors, 'boardFloors'>,
  { downgrade }: DowngradePolicy,
): string | undefined {
  const { securityVersion: lowest, name: version } = boardFloors?.[target] ?? {};
  if (lowest !== undefined && (securityCounter ?? 0) < lowest) {
    const has = securityCounter === undefined ? 'no security counter' : `security counter ${securityCounter}`;
    return `has ${has} for ${target}, and ${lowest} was installed before`;
  }
  if (downgrade !== 'refuse' || version === undefined) return undefined;
  if (imageVersion === undefined) return `has no image for MCUboot for ${target}, and ${version} was installed before`;
  return compareSemanticNames(imageVersion, version) < 0
    ? `has version ${imageVersion} for ${target}, which is older than ${version}, which was installed before`
    : undefined;
}
