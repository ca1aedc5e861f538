import type { BootingSlotsSettings, Config, TargetSettings } from '../../config/config.ts';

/** The pair of slots that the bootloader chooses from; others follow it. */
export function hasBootloader(target: TargetSettings): target is BootingSlotsSettings {
  return target.kind === 'slots' && target.bootloader !== undefined;
}

/** Paths that no slot of this target may lead to. */
export function otherSlots({ targets }: Config, { name }: TargetSettings): readonly string[] {
  return targets.flatMap((target) =>
    target.kind === 'slots' && target.name !== name ? [target.slots.A, target.slots.B] : [],
  );
}
