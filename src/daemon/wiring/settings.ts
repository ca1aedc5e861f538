import type { Config, TargetSettings } from '../../config/config.ts';
import type { BootingSlotsSettings } from '../../slots/settings.ts';
import type { HookPrograms } from '../../update/hooks/hooks.ts';
import type { Follow } from '../../update/policy/choose.ts';
import type { Bootloader } from '../../update/ports.ts';
import { noSlotsError } from '../doctor/preconditions.ts';
import { slotsOf } from '../doctor/state-directory.ts';

// Translates the configuration into the settings of the modules.

export function hookPrograms({ hooks }: Pick<Config, 'hooks'>): HookPrograms {
  return {
    before_install: hooks.beforeInstall,
    before_reboot: hooks.beforeReboot,
    after_commit: hooks.afterCommit,
    after_rollback: hooks.afterRollback,
  };
}

export function followOf({ follow, choose }: Config['update']): Follow {
  return follow === 'updates' ? { kind: 'updates', choice: choose } : { kind: follow };
}

/** The target from whose slots the bootloader chooses. */
export function bootingTarget({ targets }: Pick<Config, 'targets'>): string | undefined {
  return targets.find(hasBootloader)?.name;
}

/** True if this target is the pair of slots from which the bootloader chooses; other pairs follow it. */
export function hasBootloader(target: TargetSettings): target is BootingSlotsSettings {
  return target.kind === 'slots' && target.bootloader !== undefined;
}

/** The slots of other targets, to which no slot of this one may lead. */
export function otherSlots({ targets }: Pick<Config, 'targets'>, { name }: TargetSettings): readonly string[] {
  return slotsOf({ targets: targets.filter((target) => target.name !== name) });
}

/**
 * The bootloader of a gateway without slots: the running system is the only one. Its boards are updated nevertheless.
 */
export const singleSystem: Bootloader = {
  trialRebootArgument: undefined,
  bootedSlot: async () => 'A',
  onTrial: async () => false,
  canary: async () => {},
  commit: async () => {},
  markUnbootable: async () => {
    throw noSlotsError();
  },
  tryOnce: async () => {
    throw noSlotsError();
  },
  inspect: async () => {
    const only = { bootable: true, detail: 'the only system' };
    const slots = { A: only, B: { bootable: false, detail: 'there is none' } };
    return { primary: 'A', slots, onTrial: { A: false, B: false }, committed: { A: true, B: false } };
  },
};
