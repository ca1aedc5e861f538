import type { BootingSlotsSettings, TargetSettings } from '../../config/config.ts';

/** The pair of slots that the bootloader chooses from; others follow it. */
export function hasBootloader(target: TargetSettings): target is BootingSlotsSettings {
  return target.kind === 'slots' && target.bootloader !== undefined;
}
