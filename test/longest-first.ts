import { BaseSequencer } from 'vitest/node';
import type { TestSpecification } from 'vitest/node';

/** The files that take 26 s and more on a busy machine, and some that ended last: if one of them started late, it would run alone at the end. */
export const longest = [
  'guarantees/systemd/package/package-target',
  'guarantees/systemd/updates/updates',
  'unit-and-integration/daemon/agent',
  'guarantees/secrecy/secrecy',
  'unit-and-integration/slots/bootloaders/uboot',
  'unit-and-integration/daemon/doctor/state-trouble',
  'unit-and-integration/daemon/updates/policy',
  'guarantees/systemd/service',
  'unit-and-integration/daemon/wiring/trust-lists',
  'campaigns/boots/boots',
  'guarantees/systemd/package/package-life',
  'guarantees/hostile/hostile',
  'guarantees/network/slow-link',
  'unit-and-integration/daemon/wiring/messaging',
  'unit-and-integration/slots/bootloaders/systemd-boot/systemd-boot',
  'unit-and-integration/daemon/updates/old-releases',
  'unit-and-integration/mcu/agent-boards',
  'guarantees/network/captive-portal',
  'unit-and-integration/mcu/protocols/avr',
  'campaigns/conform/messaging',
  'unit-and-integration/update/delta/deltas',
  'unit-and-integration/cli/support-bundle/report',
  'guarantees/systemd/trust/trust',
  'unit-and-integration/daemon/status',
  'unit-and-integration/web/browser',
  'unit-and-integration/mcu/protocols/avr/avr-chips',
  'campaigns/soak/soak',
  'unit-and-integration/slots/bootloaders/grub/grub-machine',
  'unit-and-integration/telemetry/replay',
  'unit-and-integration/daemon/updates/whole-slot',
  'guarantees/systemd/delta',
  'unit-and-integration/setup/setup',
  'guarantees/systemd/systemd-boot',
  'unit-and-integration/slots/bootloaders/custom',
  'guarantees/systemd/late-state',
  'guarantees/systemd/package/build',
  'guarantees/systemd/images',
  'unit-and-integration/mcu/protocols/xmodem',
  'unit-and-integration/daemon/cycles/stopping',
  'unit-and-integration/daemon/updates/persons-word',
  'campaigns/boots/judge',
  'unit-and-integration/daemon/security/security-log',
  'unit-and-integration/daemon/wiring/way-to-service',
  'unit-and-integration/control/api/socket-api',
  'campaigns/fuzz/fuzz',
  'campaigns/sweep/sweep',
  'unit-and-integration/daemon/updates/resume',
  'campaigns/kills/kills',
  'guarantees/systemd/image-starts',
];

function rank({ moduleId }: TestSpecification): number {
  const place = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.integration.test.ts`));
  return place === -1 ? longest.length : place;
}

/** Order within each group of projects; other files follow in vitest's order. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const groupOf = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => groupOf(a) - groupOf(b) || rank(a) - rank(b));
  }
}
