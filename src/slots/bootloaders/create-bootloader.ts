import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { withName } from '../../system/settings/described.ts';
import type { Bootloader, SlotName } from '../../update/ports.ts';
import type { BootingSlotsSettings, BootloaderSettings } from '../settings.ts';
import { bootFs } from './boot-fs.ts';
import type { BootFs } from './boot-fs.ts';
import { BootPrograms } from './boot-programs.ts';
import type { RunProgram } from './boot-programs.ts';
import { resolveBootedSlot, slotMounted, slotOfRootArgument, slotNamedOnCommandLine } from './booted-slot.ts';
import type { BootDeps, BootStorage } from './bootloader-kind.ts';
import { bootloaders } from './bootloaders.ts';
import { EnvironmentBootloader } from './environment-bootloader.ts';
import type { GrubReaderDeps } from './grub/grub-reader.ts';

export interface BootloaderDeps {
  /** Returns the slot whose device is mounted as the root file system, if any. */
  readonly mountedSlot: (signal: AbortSignal) => Promise<SlotName | undefined>;
  readonly log: Log;
  /** Called after each commit of the running slot. */
  readonly onKept?: () => Promise<void>;
  readonly fs?: BootFs;
  readonly run?: RunProgram;
  readonly commandLine?: string;
  readonly deviceTreePartition?: string;
}

/** The bootloader of a target of kind slots. Nothing is read or run before one of its methods is called. */
export async function createBootloader(
  { bootloader, slots }: BootingSlotsSettings,
  deps: BootloaderDeps,
): Promise<Bootloader> {
  const { mountedSlot, log, onKept, fs = bootFs, run = runProgram, commandLine = '/proc/cmdline' } = deps;
  const { deviceTreePartition = '/proc/device-tree/chosen/bootloader/partition' } = deps;
  const line = { path: commandLine, names: namesOf(bootloader), slots, fs };
  const onCommandLine = [
    slotNamedOnCommandLine('thing.slot', line),
    slotNamedOnCommandLine('rauc.slot', line),
    slotOfRootArgument(line),
  ];
  const over: BootDeps['over'] = (environment, { clues = [], ...more } = {}) => {
    const sources = [...onCommandLine, ...clues, slotMounted(mountedSlot)];
    const bootedSlot = async (signal: AbortSignal): Promise<SlotName> => resolveBootedSlot(sources, signal);
    return new EnvironmentBootloader({ environment, bootedSlot, onKept, ...more });
  };
  const bootDeps = { programs: new BootPrograms(run), fs, run, log, deviceTreePartition, over };
  return withName(bootloaders, bootloader.kind).create(bootloader, bootDeps);
}

function namesOf(settings: BootloaderSettings): Readonly<Record<SlotName, string>> {
  return 'names' in settings ? settings.names : { A: 'A', B: 'B' };
}

/**
 * Checks where the bootloader keeps its choice, without changing anything. Throws BootloaderError if no trial can be
 * counted there.
 */
export async function checkBootStorage(
  settings: BootloaderSettings,
  deps: GrubReaderDeps,
  signal: AbortSignal,
): Promise<BootStorage> {
  return withName(bootloaders, settings.kind).inspectStorage(settings, deps, signal);
}
