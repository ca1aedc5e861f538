import { silentLog } from '../../../../src/system/log/log.ts';
import type { UpdatePorts } from '../../../../src/update/policy/install-request.ts';

type Parts = Pick<UpdatePorts, 'signal' | 'journal' | 'bootloader' | 'targets' | 'openFirmware'>;

export const portSettings = {
  defaultTarget: 'gateway',
  bootingTarget: 'gateway',
  trials: 2,
  attempts: 3,
  quarantineMs: 30 * 86_400_000,
  release: { nameCheck: 'strict', downgrade: 'allow' },
} as const;

/** Ports of a healthy gateway on which time does not pass, with these parts. */
export function portsWith(parts: Parts & Partial<UpdatePorts>): UpdatePorts {
  return {
    health: { check: async () => undefined, reachesService: async () => true },
    machine: { bootId: async () => 'boot-1', reboot: async () => {} },
    clock: { nowMs: () => 0, monotonicMs: () => 0, sleep: async () => {} },
    random: () => 0.5,
    log: silentLog,
    imageVersion: async () => undefined,
    meteredLink: async () => undefined,
    configProblem: async () => undefined,
    newAttemptId: () => 'none',
    onProgress: () => {},
    settings: portSettings,
    ...parts,
  };
}
