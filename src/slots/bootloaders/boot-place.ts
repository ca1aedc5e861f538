import type { BootloaderSettings } from '../../config/config.ts';
import { systemErrorCode } from '../../system/errors.ts';
import { bootFs } from './boot-fs.ts';
import { lookAsGrub, mountOf, refuseReadOnly } from './grub/grub-reader.ts';
import type { GrubReaderParts } from './grub/grub-reader.ts';
import { countCopies, DEFAULT_FW_ENV_CONFIG } from './uboot.ts';

/** Whether a bootloader can count a trial where it keeps its choice, and reads there what was written. */
export interface BootPlace {
  /** What was found; undefined: nothing can be seen from outside. */
  readonly detail?: string;
  /** What is allowed, but weakens a promise. */
  readonly weakness?: string;
}

/** Checks the place without changing anything. Throws BootloaderError if no trial can be counted there. */
export async function lookAtPlace(
  settings: BootloaderSettings,
  parts: GrubReaderParts,
  signal: AbortSignal,
): Promise<BootPlace> {
  switch (settings.kind) {
    case 'grub':
      return { detail: await lookAsGrub(settings.environment, parts, signal) };
    case 'tryboot': {
      const { mount } = await mountOf(settings.autoboot, parts);
      if (mount !== undefined) refuseReadOnly(settings.autoboot, mount);
      return {};
    }
    case 'uboot':
      return copiesOf(settings.fwEnvConfig ?? DEFAULT_FW_ENV_CONFIG);
    case 'custom':
      return {};
  }
}

async function copiesOf(path: string): Promise<BootPlace> {
  try {
    if (countCopies((await bootFs.readFile(path)).toString('utf8')) !== 1) return {};
    return { weakness: `${path} names one copy of the environment: a power cut while it is written loses it` };
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    return {}; // the tools tell the reason when they read the file
  }
}
