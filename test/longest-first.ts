import { BaseSequencer } from 'vitest/node';
import type { TestSpecification } from 'vitest/node';

/** The files that wait longest, for boots and deadlines: begun late, one of them would run on alone at the end. */
const longest = [
  'promises/systemd/package/package-target',
  'promises/systemd/trust/trust',
  'promises/systemd/package/package-life',
  'promises/secrecy/secrecy',
  'promises/systemd/service',
  'promises/systemd/updates/updates',
  'rooms/daemon/doctor/state-trouble',
  'rooms/daemon/wiring/messaging',
  'rooms/daemon/agent',
  'promises/systemd/package/deb',
  'stand-ins/machine/large-images',
  'campaigns/soak/soak',
  'rooms/cli/report/report',
  'promises/systemd/delta',
  'rooms/mcu/agent-boards',
  'campaigns/boots/judge',
  'rooms/daemon/wiring/trust-lists',
];

function rank({ moduleId }: TestSpecification): number {
  const place = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.integration.test.ts`));
  return place === -1 ? longest.length : place;
}

/** Of each group of projects; what is not named here comes after it, as vitest orders it. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const groupOf = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => groupOf(a) - groupOf(b) || rank(a) - rank(b));
  }
}
