import type { Config } from '../../config/config.ts';
import type { Finding } from '../../config/cross-check.ts';
import { createBootloader, checkBootStorage } from '../../slots/bootloaders/create-bootloader.ts';
import { AgentError, valueOrError } from '../../system/errors.ts';
import { silentLog } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { hasBootloader } from '../wiring/slot-settings.ts';

export interface BootCheck {
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
}

/**
 * Checks the boot environment without changing it: whether it can be read, whether it names the slots, and whether the
 * bootloader can count a trial in it.
 */
export async function checkBootEnvironment({ targets }: Config, signal: AbortSignal): Promise<BootCheck> {
  const target = targets.find(hasBootloader);
  if (target === undefined) return { problems: [], warnings: [] };
  const bootloader = await createBootloader(target, { mountedSlot: async () => undefined, log: silentLog });
  const said = await valueOrError(bootloader.inspect(signal));
  const place = await valueOrError(checkBootStorage(target.bootloader, { run: runProgram }, signal));
  const path = ['targets', target.name, 'bootloader'];
  const finding = (message: string): Finding => ({ path, message: `${path.join('.')}: ${message}` });
  const { weakness } = place instanceof AgentError ? {} : place;
  const errors = [said, place].filter((found) => found instanceof AgentError);
  return {
    problems: [...new Set(errors.map(({ message, advice }) => `${message} (${advice})`))].map(finding),
    warnings: weakness === undefined ? [] : [finding(weakness)],
  };
}
