import { PackageStore } from './package-store.ts';
import type { PackageFs } from './package-store.ts';

/**
 * Returns the version of each package that an update or rollback installed last, by the name of its target. Another
 * installed version was installed manually. Packages that no update has installed are left out.
 */
export async function versionsFromUpdates(
  names: readonly string[],
  directoryOf: (name: string) => string,
  fs?: PackageFs,
): Promise<Readonly<Record<string, string>>> {
  const left: Record<string, string> = {};
  for (const name of names) {
    const standing = await new PackageStore(directoryOf(name), fs).readInstalled();
    if (standing !== undefined) left[name] = standing.version;
  }
  return left;
}
