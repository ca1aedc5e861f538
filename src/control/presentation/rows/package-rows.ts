import type { PackageReport } from '../../reports.ts';

/** True if a package was installed or removed manually since the last update of it. */
export function isManual({ version, installedByUpdate }: PackageReport): boolean {
  return installedByUpdate !== undefined && installedByUpdate !== version;
}

export function describePackage(report: PackageReport): string {
  const { name, package: known, version, installedByUpdate } = report;
  if (version === undefined)
    return `${name}: ${known} is not installed${isManual(report) ? `; an update had installed ${installedByUpdate}` : ''}`;
  const how = isManual(report) ? `, installed manually; the last update had installed ${installedByUpdate}` : '';
  return `${name}: ${known} ${version}${how}`;
}
