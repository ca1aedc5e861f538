/** Address of the service simulator in a guest (qemu.ts). */
const serviceUrl = 'http://10.0.2.100';
export const DEVICE_TYPE = 'virtual-gateway';

export interface GatewayConfig {
  readonly health?: string;
  readonly trials?: number;
  readonly url?: string;
  readonly schedule?: string;
  readonly serialNumber?: string;
  readonly key?: string;
  readonly slots?: Readonly<Record<'A' | 'B', string>>;
  readonly environment?: string;
  /** More TOML, in tables of its own. */
  readonly extra?: string;
}

const partLabels = { A: '/dev/disk/by-partlabel/rootfs-a', B: '/dev/disk/by-partlabel/rootfs-b' };

export function gatewayConfig(config: GatewayConfig = {}): string {
  const { health, trials = 2, slots = partLabels, serialNumber, extra = '' } = config;
  return `
[service]
url = "${config.url ?? serviceUrl}"
insecure = true

[device]
device_type = "${DEVICE_TYPE}"
${serialNumber === undefined ? '' : `serial_number = "${serialNumber}"`}

[update]
splay = "0s"
schedule = "${config.schedule ?? '*/20 * * * * *'}"
health = ${health ?? '{ deadline = "3m", commands = [["/usr/lib/app/healthy"]] }'}
trial_attempts = ${trials}

[trust]
keys = ["${config.key ?? '/etc/thing-agent/trust/release.pem'}"]

[report]
outcome = "update_outcome"

[targets.gateway]
kind = "slots"
slots = { A = "${slots.A}", B = "${slots.B}" }
bootloader = { kind = "grub", environment = "${config.environment ?? '/boot/grub/grubenv'}" }
${extra}
`;
}
