import { BaseSequencer } from 'vitest/node';
import type { TestSpecification } from 'vitest/node';

/** The files that wait longest, for boots and deadlines: begun late, one of them would run on alone at the end. */
const longest = [
  'guarantees/systemd/package/package-target',
  'guarantees/systemd/trust/trust',
  'guarantees/systemd/package/package-life',
  'guarantees/secrecy/secrecy',
  'guarantees/systemd/service',
  'guarantees/systemd/updates/updates',
  'unit-and-integration/daemon/doctor/state-trouble',
  'unit-and-integration/daemon/wiring/messaging',
  'unit-and-integration/daemon/agent',
  'guarantees/systemd/package/deb',
  'fakes/machine/large-images',
  'campaigns/soak/soak',
  'unit-and-integration/cli/report/report',
  'guarantees/systemd/delta',
  'unit-and-integration/mcu/agent-boards',
  'campaigns/boots/judge',
  'unit-and-integration/daemon/wiring/trust-lists',
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
