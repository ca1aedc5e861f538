import type { PackageReport } from '../../reports.ts';

/** Whether a person has installed, or removed, a package since an update left another version there. */
export function isByHand({ version, installedByUpdate }: PackageReport): boolean {
  return installedByUpdate !== undefined && installedByUpdate !== version;
}

export function describePackage(told: PackageReport): string {
  const { name, package: known, version, installedByUpdate } = told;
  if (version === undefined)
    return `${name}: ${known} is not installed${isByHand(told) ? `; an update had left ${installedByUpdate}` : ''}`;
  const how = isByHand(told) ? `, installed by hand and not by an update, which left ${installedByUpdate}` : '';
  return `${name}: ${known} ${version}${how}`;
}
