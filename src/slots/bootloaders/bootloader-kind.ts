import type * as z from 'zod';

import type { Log } from '../../system/log/log.ts';
import { ownSettingsOf, tableOfKind } from '../../system/settings/described.ts';
import type { OfKind } from '../../system/settings/described.ts';
import type { SettingsOf } from '../../system/settings/settings.ts';
import type { Bootloader } from '../../update/ports.ts';
import type { BootEnvironment } from './boot-environment.ts';
import type { BootFs } from './boot-fs.ts';
import type { BootPrograms, RunProgram } from './boot-programs.ts';
import type { SlotDetector } from './booted-slot.ts';
import type { GrubReaderDeps } from './grub/grub-reader.ts';

/**
 * The result of checking whether a bootloader can count a trial in its storage, and reads there the data that was
 * written.
 */
export interface BootStorage {
  /** The findings. Omitted if nothing is visible from outside. */
  readonly detail?: string;
  /** A permitted choice that weakens a guarantee. */
  readonly weakness?: string;
}

export interface BootDeps {
  readonly programs: BootPrograms;
  readonly fs: BootFs;
  readonly run: RunProgram;
  readonly log: Log;
  readonly deviceTreePartition: string;
  /**
   * Implements the Bootloader port with this environment. `clues` name the running slot, in addition to those common to
   * every bootloader.
   */
  readonly over: <State>(environment: BootEnvironment<State>, more?: BootloaderExtras) => Bootloader;
}

export interface BootloaderExtras {
  readonly clues?: readonly SlotDetector[];
  readonly trialRebootArgument?: string;
}

/** The part of a bootloader that is loaded when it is needed. */
export interface LoadedBootloader<Shape extends z.ZodRawShape> {
  /** Makes the bootloader. Nothing is read or run before one of its methods is called. */
  readonly create: (settings: SettingsOf<z.ZodObject<Shape>>, deps: BootDeps) => Bootloader;
  /** Checks the place without changing anything. Throws BootloaderError if no trial can be counted there. */
  readonly inspectStorage: (
    settings: SettingsOf<z.ZodObject<Shape>>,
    deps: GrubReaderDeps,
    signal: AbortSignal,
  ) => Promise<BootStorage>;
}

/** A bootloader as it describes itself to the configuration and to createBootloader. It is listed in bootloaders.ts. */
interface Description<Name extends string, Shape extends z.ZodRawShape> {
  readonly name: Name;
  readonly settings: Shape;
  readonly load: () => Promise<LoadedBootloader<Shape>>;
}

export function bootloaderKind<Name extends string, Shape extends z.ZodRawShape>(described: Description<Name, Shape>) {
  const { name, load } = described;
  const own = ownSettingsOf<Name, Shape>(name);
  return {
    name,
    table: tableOfKind(name, described.settings),
    create: async (settings: OfKind, deps: BootDeps) => (await load()).create(own(settings), deps),
    inspectStorage: async (settings: OfKind, deps: GrubReaderDeps, signal: AbortSignal) =>
      (await load()).inspectStorage(own(settings), deps, signal),
  };
}
