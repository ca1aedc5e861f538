import type { Config } from '../config/config.ts';
import type { PackageReport } from '../control/reports.ts';
import { describeInstalled } from '../package/dpkg.ts';
import { versionsFromUpdates } from '../package/package-store.ts';
import { AgentError, valueOrError } from '../system/errors.ts';
import { runProgram } from '../system/processes/child-process.ts';
import { packageFolder } from './wiring/engine.ts';
import type { Wiring } from './wiring/wiring.ts';

type PackagePlace = Pick<Wiring, 'journal'> & { readonly config: Pick<Config, 'targets' | 'paths'> };

/** Lists the packages that are targets: their state in dpkg, and the results of updates. */
export async function listPackages(
  { config, journal }: PackagePlace,
  signal: AbortSignal,
  run = runProgram,
): Promise<readonly PackageReport[]> {
  const targets = config.targets.filter((target) => target.kind === 'package');
  if (targets.length === 0) return [];
  const { kind } = journal.state.phase;
  const isExchanging = kind === 'trial' || kind === 'rolling-back';
  const left = isExchanging
    ? {}
    : await versionsFromUpdates(
        targets.map(({ name }) => name),
        (name) => packageFolder(config, name),
      );
  const reports: PackageReport[] = [];
  for (const { name, package: known } of targets) {
    const version = await describeInstalled(known, run, signal);
    const byUpdate = left[name];
    reports.push({ name, package: known, version, ...(byUpdate !== undefined && { installedByUpdate: byUpdate }) });
  }
  return reports;
}

/** The same for a view that always responds; empty if dpkg cannot be used. */
export async function showPackages(...given: Parameters<typeof listPackages>): ReturnType<typeof listPackages> {
  const found = await valueOrError(listPackages(...given));
  return found instanceof AgentError ? [] : found;
}
