import { BaseSequencer } from 'vitest/node';
import type { TestSpecification } from 'vitest/node';

/** The files that wait longest, for boots and deadlines: begun late, one of them would run on alone at the end. */
const longest = [
  'promises/systemd/package/package-target',
  'promises/systemd/updates/updates',
  'rooms/daemon/doctor/state-trouble',
  'promises/systemd/trust/trust',
  'promises/systemd/package/package-life',
  'rooms/mcu/agent-boards',
  'rooms/daemon/agent',
  'rooms/daemon/wiring/trust-lists',
  'promises/secrecy/secrecy',
  'campaigns/soak/soak',
  'promises/systemd/service',
  'campaigns/kills/kills',
  'rooms/daemon/wiring/messaging',
  'stand-ins/machine/large-images',
  'promises/hostile/hostile',
  'promises/systemd/delta',
  'campaigns/boots/boots',
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
