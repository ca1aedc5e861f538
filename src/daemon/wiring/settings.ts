import type { Config } from '../../config/config.ts';
import type { HookPrograms } from '../../update/hooks/hooks.ts';
import type { Follow } from '../../update/policy/choose.ts';
import { hasBootloader } from './slot-settings.ts';
import type { StagingSettings } from './staging-with-keys.ts';

// Translates the configuration into the settings of the rooms.

export function hookPrograms({ hooks }: Pick<Config, 'hooks'>): HookPrograms {
  return {
    before_install: hooks.beforeInstall,
    before_reboot: hooks.beforeReboot,
    after_commit: hooks.afterCommit,
    after_rollback: hooks.afterRollback,
  };
}

export function stagingSettings({ update, device, trust }: Config): StagingSettings {
  return { encoding: update.encoding, deviceType: device.deviceType, allowUnsigned: trust.allowUnsigned };
}

export function followOf({ follow, choose }: Config['update']): Follow {
  return follow === 'updates' ? { kind: 'updates', choice: choose } : { kind: follow };
}

/** The target from whose slots the bootloader chooses. */
export function bootingTarget({ targets }: Pick<Config, 'targets'>): string | undefined {
  return targets.find(hasBootloader)?.name;
}
