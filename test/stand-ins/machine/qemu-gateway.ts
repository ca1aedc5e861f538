import { once } from 'node:events';

import { GatewayMachine } from './gateway-machine.ts';
import { startQemu } from './qemu.ts';
import type { QemuOptions } from './qemu.ts';

export interface QemuGatewayOptions extends Pick<QemuOptions, 'disk' | 'servicePort' | 'efi' | 'more'> {
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
      return { kill: () => program.kill('SIGKILL'), ended: ended.then(([code]) => code === 0) };
    },
  });
}
