import assert from 'node:assert';

import type { runProgram } from '../system/processes/child-process.ts';
import type { Clock } from '../system/time/clock.ts';
import type { BoardPayload, PackageTarget, Verified } from '../update/ports.ts';
import { describeInstalled, readFields, requireFields } from './dpkg.ts';
import { PackageError } from './errors.ts';
import type { InstallerClient } from './installer-client.ts';
import { openPackageFile } from './package-file.ts';
import { PackageInstaller } from './package-installer.ts';
import type { ExchangeResult, PackageReplacement } from './package-installer.ts';
import { ABSENT, PackageStore } from './package-store.ts';
import type { PackageFs } from './package-store.ts';
import type { PackageTargetSettings } from './settings.ts';

export interface PackageTargetDeps {
  readonly clock: Clock;
  readonly run: typeof runProgram;
  /** The time that [update.health] may take. */
  readonly healthMs: number;
  readonly askGuard: InstallerClient;
  /** The real file system if not given. */
  readonly fs?: PackageFs;
}

interface Place {
  readonly name: string;
  readonly package: string;
  readonly store: PackageStore;
  readonly guard: PackageInstaller;
  readonly run: typeof runProgram;
}

/** The target of a package in an update: the installer installs the payload, or the previous package. */
export function createPackageTarget(
  settings: PackageTargetSettings,
  directory: string,
  { clock, run, healthMs, askGuard: ask, fs }: PackageTargetDeps,
): PackageTarget {
  const { name, installDeadlineMs: installMs, gracePeriodMs } = settings;
  const store = new PackageStore(directory, fs);
  const guard = new PackageInstaller({ store, installMs, gracePeriodMs: healthMs + gracePeriodMs, clock, ask });
  const place: Place = { name, package: settings.package, store, guard, run };
  return {
    kind: 'package',
    name,
    openFile: async (opening, signal) => {
      await guard.clear(settings.package, signal);
      return openPackageFile(store, opening, async (path) => requireFields(path, settings.package, run, signal));
    },
    digestOf: async (sizeBytes, _signal, digest) =>
      (await store.digestOf(store.pathOf(digest), sizeBytes)) ?? 'nothing',
    flash: async (payload, evidence: Verified, signal) => {
      assert(evidence.digest === payload.digest, `the evidence is of ${evidence.digest}, and not of ${payload.digest}`);
      await install(place, payload, signal);
    },
    // The guard compares what it puts back with its digest.
    restore: async (payload, _vouch, signal) => restorePrevious(place, payload, signal),
    keeps: async (digest) => {
      const before = await store.before(digest);
      const isKept = before === ABSENT || (before !== undefined && (await store.holds(before)));
      return { payload: await store.holds(digest), before: isKept };
    },
  };
}

/**
 * Installs a payload after saving the installed package for a rollback. If the package's own scripts restart the agent,
 * this is called again, and continues. A payload that is already installed is requested again if the installer still
 * has a request for another package, which a killed agent may have left.
 */
async function install(place: Place, { digest, onProgress }: BoardPayload, signal: AbortSignal): Promise<void> {
  const { name, store, guard } = place;
  const tell = (step: string): void => onProgress({ board: name, step, doneBytes: 0, totalBytes: 0 });
  if (!(await store.holds(digest)))
    throw new PackageError('package-damaged', `${name}: ${store.pathOf(digest)} is not the staged file`);
  const isAsked = await guard.isAskedFor(digest);
  const ours = isAsked ? undefined : await installedByAgent(place, signal);
  const isGoing = ours === digest && (await guard.isRunning());
  if (ours === digest && !isGoing) return;
  tell('keeping');
  const otherwise =
    (isAsked || isGoing ? await store.before(digest) : undefined) ??
    (await backUpInstalled(place, digest, ours, signal));
  const result = await replace(place, { want: digest, otherwise }, () => tell('installing'), signal);
  if (result.word !== 'installed') throw failureOf(name, result);
}

/**
 * Reinstalls the package from before the payload. Does nothing if the payload was not installed, or the previous
 * package is there already.
 */
async function restorePrevious(place: Place, { digest, onProgress }: BoardPayload, signal: AbortSignal): Promise<void> {
  const { name, store } = place;
  const before = await store.before(digest);
  if (before === undefined || !(await mayInstall(place, digest, before))) return;
  const tell = (): void => onProgress({ board: name, step: 'restoring', doneBytes: 0, totalBytes: 0 });
  const otherwise = (await store.holds(digest)) ? digest : undefined;
  const result = await replace(place, { want: before, otherwise, isRestore: true }, tell, signal);
  if (result.word !== 'installed') throw new PackageError('package-not-restored', `${name}: ${result.why}`);
}

/**
 * True if the payload may be installed. Leftovers of an earlier attempt are not a reason to touch the installed
 * package.
 */
async function mayInstall({ store, guard }: Place, digest: string, before: string): Promise<boolean> {
  const isTheirs = (await guard.isAskedFor(digest)) || (await guard.isAskedFor(before));
  if (!isTheirs && (await store.readInstalled())?.digest !== digest) return false;
  const last = await guard.last();
  if (last?.want !== digest || last.otherwise !== before) return true;
  return last.word !== 'refused' && last.word !== 'put-back';
}

/** Keeps what is installed. This must happen before dpkg begins, which changes it. */
async function backUpInstalled(
  { package: known, store, guard }: Place,
  digest: string,
  ours: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  const before = ours ?? (await guard.keep(known, signal)).digest;
  await store.rememberBefore(digest, before);
  return before;
}

/**
 * Returns the digest of the stored package that is installed as an update left it, or undefined if another package, or
 * none, is installed.
 */
async function installedByAgent(
  { package: known, store, run }: Place,
  signal: AbortSignal,
): Promise<string | undefined> {
  const standing = await store.readInstalled();
  if (standing === undefined || standing.version !== (await describeInstalled(known, run, signal))) return undefined;
  return (await store.holds(standing.digest)) ? standing.digest : undefined;
}

/** Lets the installer replace the package, and records what dpkg reports as installed then. */
async function replace(
  { name, package: known, store, guard, run }: Place,
  exchange: Omit<PackageReplacement, 'package'>,
  onWait: () => void,
  signal: AbortSignal,
): Promise<ExchangeResult> {
  const { want, otherwise } = exchange;
  const result = await guard.exchange({ package: known, ...exchange }, onWait, signal);
  const stands = result.word === 'installed' ? want : otherwise;
  if (result.word === 'broken' || stands === undefined || stands === ABSENT) {
    await store.recordInstalled(undefined);
    return result;
  }
  const installed = await describeInstalled(known, run, signal);
  const { version } = await readFields(store.pathOf(stands), run, signal);
  if (installed !== version) {
    const found = installed ?? 'not there';
    throw new PackageError('package-changed', `${name}: ${known} is ${found}, and ${version} was installed`);
  }
  await store.recordInstalled({ digest: stands, version });
  return result;
}

function failureOf(name: string, { word, why }: ExchangeResult): PackageError {
  const code =
    word === 'refused' ? 'package-refused' : word === 'put-back' ? 'package-restored' : 'package-not-restored';
  return new PackageError(code, `${name}: ${why}`);
}
