import type { Config, TargetSettings } from '../../config/config.ts';
import type { BootingSlotsSettings } from '../../slots/settings.ts';

/** True if this target is the pair of slots from which the bootloader chooses; other pairs follow it. */
export function hasBootloader(target: TargetSettings): target is BootingSlotsSettings {
  return target.kind === 'slots' && target.bootloader !== undefined;
}

/** The slots of other targets, to which no slot of this one may lead. */
export function otherSlots({ targets }: Pick<Config, 'targets'>, { name }: TargetSettings): readonly string[] {
  return targets.flatMap((target) =>
    target.kind === 'slots' && target.name !== name ? [target.slots.A, target.slots.B] : [],
  );
}
