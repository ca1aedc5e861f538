import { isDeepStrictEqual } from 'node:util';

import fc from 'fast-check';

import { scanKernel } from '../../../../src/telemetry/scan/scan-kernel.ts';
import type { ScanCandidate } from '../../../../src/telemetry/scan/scan-result.ts';
import type { PolledSource } from '../../../../src/telemetry/sources/source.ts';
import { systemSource } from '../../../../src/telemetry/sources/system.ts';
import { machines } from '../../../fakes/sysfs/machines.ts';
import { SysfsTree } from '../../../fakes/sysfs/sysfs-tree.ts';
import type { Machine } from '../../../fakes/sysfs/sysfs-tree.ts';
import { editedText, edits } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

/** Changes to one file or link of a machine. */
const change = fc.record({
  at: fc.nat(),
  kind: fc.constantFrom('edit', 'edit', 'remove', 'copy', 'number'),
  edits,
  to: fc.nat(),
  number: fc.constantFrom(
    '0',
    '-1',
    '85000',
    '-128000',
    '127000',
    '65535',
    '0.000100',
    '4294967295',
    '-2147483648',
    '1e999',
    'nan',
    '1 2',
    '',
  ),
});
const cases = fc.record({
  machine: fc.constantFrom(...Object.keys(machines)),
  changes: fc.array(change, { maxLength: 6 }),
});

const never = new AbortController().signal;
const MAX_MILLI = 3_000_000;

/** Machines whose attributes were changed, removed, or given to another device. */
function changed({ machine, changes }: CaseOf<typeof cases>): Pick<Machine, 'files' | 'links'> {
  const { files: original, links } = machines[machine] ?? { files: {}, links: {} };
  const files = { ...original };
  const paths = Object.keys(files);
  for (const { at, kind, edits: some, to, number } of changes) {
    const path = paths[at % paths.length] ?? '';
    const text = files[path] ?? '';
    if (kind === 'remove') delete files[path];
    else if (kind === 'copy') files[paths[to % paths.length] ?? path] = text;
    else files[path] = kind === 'number' ? `${number}\n` : editedText(text, some);
  }
  return { files, links: links ?? {} };
}

function requireSensible({ title, reading, unit }: ScanCandidate): void {
  const value = Number(reading ?? 0);
  if (!Number.isFinite(value)) throw new Error(`${title} reads ${reading}`);
  if (unit === '°C' && Math.abs(value) > MAX_MILLI / 1_000) throw new Error(`${title} reads ${reading} ${unit}`);
  if (unit === 'rpm' && value === 65_535) throw new Error(`${title} is a fan that is missing`);
  if (!Number.isInteger(value) && value !== Number(value.toPrecision(15)))
    throw new Error(`${title} has noise: ${reading}`);
  if (unit !== undefined && title.endsWith('_raw')) throw new Error(`${title} is a count with the unit ${unit}`);
}

async function checkCase(input: CaseOf<typeof cases>): Promise<void> {
  using tree = new SysfsTree(changed(input));
  for (const kind of ['hwmon', 'thermal', 'iio'] as const) {
    const { found } = await scanKernel(kind, never, tree.root);
    const proposed = found.flatMap(({ sensor }) => (sensor === undefined ? [] : [sensor.source]));
    proposed.forEach((source, index) => {
      if (proposed.slice(0, index).some((other) => isDeepStrictEqual(source, other)))
        throw new Error(`two devices are proposed as ${JSON.stringify(source)}`);
    });
    found.forEach(requireSensible);
  }
  for (const metric of ['cpu_temperature', 'network_sent_bytes'] as const) {
    const source: PolledSource = systemSource(metric, { root: tree.root, diskPath: '/', agentFigures: () => ({}) });
    const found = await outcomeOf(async () => source.read(never));
    if ('value' in found && !Number.isFinite(found.value)) throw new Error(`${metric} is ${String(found.value)}`);
  }
}

/** Sensors of real machines whose files say something else. */
export const kernelSensors: FuzzTarget = {
  name: 'kernel-sensors',
  open: async () => openTarget(cases, checkCase),
};
