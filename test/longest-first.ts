import { BaseSequencer } from 'vitest/node';
import type { TestSpecification } from 'vitest/node';

/** The files that take longest, 27 s and more on a busy machine: if one of them started late, it would run alone at the end. */
export const longest = [
  'guarantees/systemd/package/package-target',
  'guarantees/systemd/updates/updates',
  'guarantees/secrecy/secrecy',
  'guarantees/systemd/service',
  'unit-and-integration/slots/bootloaders/systemd-boot/systemd-boot',
  'unit-and-integration/daemon/wiring/trust-lists',
  'unit-and-integration/daemon/doctor/state-trouble',
  'guarantees/systemd/package/package-life',
  'unit-and-integration/daemon/agent',
  'unit-and-integration/daemon/updates/policy',
  'guarantees/network/slow-link',
  'guarantees/hostile/hostile',
  'campaigns/conform/messaging',
  'campaigns/boots/boots',
  'guarantees/systemd/trust/trust',
  'unit-and-integration/daemon/wiring/messaging',
  'guarantees/network/captive-portal',
  'guarantees/systemd/package/build',
  'guarantees/systemd/delta',
  'unit-and-integration/mcu/protocols/avr',
  'unit-and-integration/daemon/updates/old-releases',
  'unit-and-integration/slots/bootloaders/custom',
  'unit-and-integration/daemon/cycles/stopping',
  'guarantees/systemd/systemd-boot',
  'unit-and-integration/web/browser',
  'unit-and-integration/cli/support-bundle/report',
  'unit-and-integration/mcu/agent-boards',
  'unit-and-integration/daemon/status',
  'unit-and-integration/mcu/protocols/xmodem',
  'guarantees/systemd/image-starts',
  'unit-and-integration/mcu/protocols/avr/avr-chips',
  'campaigns/kills/kills',
  'unit-and-integration/daemon/cycles/time-zone',
  'campaigns/boots/judge',
  'unit-and-integration/slots/bootloaders/grub/grub-machine',
  'unit-and-integration/update/delta/deltas',
  'campaigns/soak/soak',
  'unit-and-integration/slots/bootloaders/grub/grub',
  'unit-and-integration/daemon/wiring/way-to-service',
  'unit-and-integration/telemetry/replay',
  'unit-and-integration/daemon/updates/persons-word',
  'unit-and-integration/web/page-daemon',
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
