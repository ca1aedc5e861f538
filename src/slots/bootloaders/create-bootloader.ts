import type { BootloaderSettings, BootNames, BootingSlotsSettings } from '../../config/config.ts';
import type { Log } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Bootloader, SlotName } from '../../update/ports.ts';
import { bootFs } from './boot-fs.ts';
import type { BootFs } from './boot-fs.ts';
import { BootPrograms } from './boot-programs.ts';
import type { RunProgram } from './boot-programs.ts';
import {
  agreeOnSlot,
  slotMounted,
  slotOfDeviceTree,
  slotOfHandler,
  slotOfRootArgument,
  slotNamedOnCommandLine,
} from './booted-slot.ts';
import type { AskForClue } from './booted-slot.ts';
import { Handler } from './custom.ts';
import { EnvironmentBootloader } from './environment-bootloader.ts';
import { GRUB_TITLE, GrubEnvironmentFile, grubSpelling } from './grub/grub.ts';
import { AutobootFile } from './tryboot/tryboot.ts';
import { FwTools, UBOOT_TITLE, ubootSpelling } from './uboot.ts';
import { VariableEnvironment } from './variable-environment.ts';

export interface BootloaderSurroundings {
  /** The slot whose device is mounted as the root file system, if it is one. */
  readonly mountedSlot: (signal: AbortSignal) => Promise<SlotName | undefined>;
  readonly log: Log;
  /** Told of each commit of the slot that runs. */
  readonly onKept?: () => Promise<void>;
  readonly fs?: BootFs;
  readonly run?: RunProgram;
  readonly commandLine?: string;
  readonly deviceTreePartition?: string;
}

/** The bootloader of a target of kind slots. Nothing is read or run before its first method is called. */
export function createBootloader(target: BootingSlotsSettings, surroundings: BootloaderSurroundings): Bootloader {
  const { mountedSlot, log, onKept, fs = bootFs, run = runProgram, commandLine = '/proc/cmdline' } = surroundings;
  const { deviceTreePartition = '/proc/device-tree/chosen/bootloader/partition' } = surroundings;
  const settings = target.bootloader;
  const programs = new BootPrograms(run);
  const names = namesOf(settings);
  const line = { path: commandLine, names, slots: target.slots, fs };
  const onCommandLine = [
    slotNamedOnCommandLine('thing.slot', line),
    slotNamedOnCommandLine('rauc.slot', line),
    slotOfRootArgument(line),
  ];
  const bootedSlot = (...more: readonly AskForClue[]) => {
    const sources = [...onCommandLine, ...more, slotMounted(mountedSlot)];
    return (signal: AbortSignal) => agreeOnSlot(sources, signal);
  };
  switch (settings.kind) {
    case 'uboot': {
      const store = new FwTools({ programs, fs, log, configFile: settings.fwEnvConfig });
      const { attempts } = settings;
      const environment = new VariableEnvironment({
        title: UBOOT_TITLE,
        store,
        spelling: ubootSpelling(settings, names),
        attempts,
      });
      return new EnvironmentBootloader({ environment, bootedSlot: bootedSlot(), onKept });
    }
    case 'grub': {
      const store = new GrubEnvironmentFile({ fs, path: settings.environment, run });
      const { attempts } = settings;
      const environment = new VariableEnvironment({
        title: GRUB_TITLE,
        store,
        spelling: grubSpelling(attempts, names),
        attempts,
      });
      return new EnvironmentBootloader({ environment, bootedSlot: bootedSlot(), onKept });
    }
    case 'tryboot': {
      const { partitions, autoboot: path } = settings;
      return new EnvironmentBootloader({
        environment: new AutobootFile({ fs, path, partitions }),
        bootedSlot: bootedSlot(slotOfDeviceTree(deviceTreePartition, partitions, fs)),
        onKept,
        trialRebootArgument: '0 tryboot',
      });
    }
    case 'custom': {
      const environment = new Handler({ programs, handler: settings.handler, names });
      const current = (signal: AbortSignal) => environment.current(signal);
      return new EnvironmentBootloader({ environment, bootedSlot: bootedSlot(slotOfHandler(current)), onKept });
    }
  }
}

function namesOf(settings: BootloaderSettings): BootNames {
  return settings.kind === 'tryboot' ? { A: 'A', B: 'B' } : settings.names;
}
