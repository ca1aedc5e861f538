import { BaseSequencer } from 'vitest/node';
import type { TestSpecification } from 'vitest/node';

/** The files that take longest, 15 s and more: if one of them started late, it would run alone at the end. */
export const longest = [
  'guarantees/network/slow-link',
  'guarantees/systemd/package/package-target',
  'guarantees/secrecy/secrecy',
  'unit-and-integration/daemon/doctor/state-trouble',
  'unit-and-integration/daemon/agent',
  'unit-and-integration/slots/bootloaders/systemd-boot/systemd-boot',
  'unit-and-integration/cli/support-bundle/report',
  'guarantees/network/captive-portal',
  'unit-and-integration/mcu/protocols/avr',
  'guarantees/systemd/package/package-life',
  'unit-and-integration/daemon/wiring/messaging',
  'unit-and-integration/daemon/sensors/sensors',
  'unit-and-integration/daemon/updates/policy',
  'unit-and-integration/daemon/status',
  'guarantees/hostile/hostile',
  'guarantees/systemd/updates/updates',
  'guarantees/systemd/service',
  'campaigns/boots/boots',
  'guarantees/systemd/trust/trust',
  'unit-and-integration/mcu/agent-boards',
  'campaigns/sweep/sweep',
  'unit-and-integration/slots/bootloaders/uboot',
  'campaigns/conform/messaging',
  'unit-and-integration/daemon/wiring/way-to-service',
  'unit-and-integration/slots/bootloaders/grub/grub-machine',
  'unit-and-integration/web/browser',
  'campaigns/fuzz/fuzz',
  'guarantees/systemd/package/build',
  'unit-and-integration/daemon/wiring/trust-lists',
  'campaigns/kills/kills',
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
