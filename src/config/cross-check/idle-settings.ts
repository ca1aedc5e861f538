import { countOf, isBit, isPushed, outputSettings } from '../../telemetry/settings.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt, valueAt } from '../file/problems.ts';
import type { ConfigFile } from '../schema/schema.ts';

type Sensor = ConfigFile['sensors'][number];
type Output = Sensor['outputs'][number];

/** Settings of a table that have no effect unless it has what they need. */
type Pair<Table> = readonly [settings: readonly string[], needs: string, isMet: (table: Table) => boolean];

const ofReduction: readonly Pair<Pick<Output, 'deadband' | 'deadband_percent' | 'aggregate_window'>>[] = [
  [
    ['heartbeat'],
    'deadband or deadband_percent',
    ({ deadband, deadband_percent: percent }) => deadband !== undefined || percent !== undefined,
  ],
  [['aggregate'], 'aggregate_window', ({ aggregate_window: period }) => period !== undefined],
];

const ofOutput: readonly Pair<Pick<Output, 'event'>>[] = [[['priority'], 'event', ({ event }) => event !== undefined]];

const ofSensor: readonly Pair<Pick<Sensor, 'event'>>[] = [
  [outputSettings, 'event', ({ event }) => event !== undefined],
];

const ofPolling: readonly Pair<Pick<Sensor, 'source'>>[] = [
  [['every', 'timeout'], 'a source that is read at intervals', ({ source }) => !isPushed(source)],
];

const ofSource: readonly Pair<Sensor['source']>[] = [
  [['idle_timeout'], 'stream = true', (source) => source.kind !== 'exec' || source.stream],
  [['byte_order'], 'a table of registers', (source) => !('table' in source) || !isBit(source.table)],
  [['word_order'], 'a type of 32 or 64 bits', (source) => !('table' in source) || countOf(source) > 1],
];

/** Finds settings of measurements that are written but have no effect; `input` shows the written ones. */
export function idleSettings({ sensors, properties }: ConfigFile, input: unknown): readonly Finding[] {
  const check = <Table>(path: readonly PropertyKey[], table: Table, pairs: readonly Pair<Table>[]) =>
    pairs
      .filter(([, , isMet]) => !isMet(table))
      .flatMap(([settings, needs]) => settings.map((setting) => ({ at: [...path, setting], needs })))
      .filter(({ at }) => valueAt(input, at) !== undefined)
      .map(({ at, needs }) => findingAt(at, ` has no effect without ${needs}`));
  return [
    ...sensors.flatMap((sensor, index) => [
      ...check(['sensors', index], sensor, [...ofReduction, ...ofSensor, ...ofPolling]),
      ...check(['sensors', index, 'source'], sensor.source, ofSource),
      ...sensor.outputs.flatMap((output, number) =>
        check(['sensors', index, 'outputs', number], output, [...ofReduction, ...ofOutput]),
      ),
    ]),
    ...properties.flatMap((property, index) => [
      ...check(['properties', index], property, [...ofReduction, ...ofPolling]),
      ...check(['properties', index, 'source'], property.source, ofSource),
    ]),
  ];
}
