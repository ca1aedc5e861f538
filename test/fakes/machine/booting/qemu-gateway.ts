import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';

import { GatewayMachine } from './gateway-machine.ts';
import { processorSeconds } from './processor-seconds.ts';
import { startQemu } from './qemu.ts';
import type { QemuOptions } from './qemu.ts';

const ovmf = '/usr/share/OVMF';

/** UEFI, with the variables of a new machine in this file. */
export function newUefi(variables: string): NonNullable<QemuOptions['efi']> {
  copyFileSync(join(ovmf, 'OVMF_VARS_4M.fd'), variables);
  return { code: join(ovmf, 'OVMF_CODE_4M.fd'), variables };
}

export interface QemuGatewayOptions extends Pick<
  QemuOptions,
  'architecture' | 'disk' | 'servicePort' | 'efi' | 'serial' | 'more'
> {
  readonly serialNumber?: string;
  readonly logs?: string | undefined;
  readonly onLine?: ((line: string) => void) | undefined;
}

/** A gateway that really boots: BIOS, GRUB, kernel, systemd and the agent, on an emulated machine with one disk. */
export function qemuGateway({
  logs,
  onLine,
  serialNumber = 'GW-0001',
  ...options
}: QemuGatewayOptions): GatewayMachine {
  return new GatewayMachine({
    logs,
    onLine,
    start: (cycle) => {
      const program = startQemu({ ...options, ...cycle, serialNumber });
      const ended = once(program, 'close') as Promise<[number | null, string | null]>;
      return {
        kill: () => program.kill('SIGKILL'),
        ended: ended.then(([code]) => code === 0),
        processorSeconds: () => (program.pid === undefined ? undefined : processorSeconds(program.pid)),
      };
    },
  });
}
