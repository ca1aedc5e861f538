import { parseUtcTime } from '../system/time/utc-time.ts';
import { brokerConflicts, serviceConflicts, webConflicts } from './cross-check/connections.ts';
import { portUsers, serialPortConflicts } from './cross-check/serial-ports.ts';
import { targetConflicts } from './cross-check/targets.ts';
import { findingAt } from './file/problems.ts';
import type { ConfigFile, ValidTables } from './schema/schema.ts';

/** A contradiction between settings; `path` is the one to change. */
export interface Finding {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Finds contradictions between settings that are correct in themselves; `input` shows the written ones among them. */
export function findConflicts(tables: ValidTables, input: Readonly<Record<string, unknown>>): readonly Finding[] {
  const { service, update, web, targets = {} } = tables;
  return [
    ...keyConflicts(tables),
    ...writableReportProperties(tables),
    ...(web === undefined ? [] : webConflicts(web)),
    ...(service === undefined ? [] : serviceConflicts(service)),
    ...(tables.targets === undefined || update === undefined ? [] : missingDefaultTarget(targets, update)),
    ...targetConflicts(targets, input),
    ...measurementConflicts(tables),
    ...serialPortConflicts(portUsers(input, tables)),
    ...watchConflicts(tables),
  ];
}

function* keyConflicts({ trust }: ValidTables): Generator<Finding> {
  for (const [index, key] of (trust?.keys ?? []).entries()) {
    if (typeof key === 'string' || key.not_before === undefined || key.not_after === undefined) continue;
    if ((parseUtcTime(key.not_before) ?? 0) < (parseUtcTime(key.not_after) ?? 0)) continue;
    yield findingAt(['trust', 'keys', index], ': not_after is not after not_before');
  }
}

/**
 * Refuses a reported property that members of the group may write: each of them could report to the service how an
 * update ended.
 */
function* writableReportProperties({ report, control }: ValidTables): Generator<Finding> {
  const at = control?.properties.findIndex((id) => id === report?.outcome) ?? -1;
  if (at !== -1) yield findingAt(['control', 'properties', at], ' is report.outcome, which the agent alone writes');
}

function* missingDefaultTarget(
  targets: ConfigFile['targets'],
  { default_target: wanted }: ConfigFile['update'],
): Generator<Finding> {
  if (wanted === undefined || Object.hasOwn(targets, wanted)) return;
  const names = Object.keys(targets).join(', ');
  const known = names === '' ? 'there are no targets' : `there are: ${names}`;
  yield findingAt(['update', 'default_target'], `: there is no [targets.${wanted}] (${known})`);
}

function* measurementConflicts({ sensors = [], properties = [] }: ValidTables): Generator<Finding> {
  for (const [index, sensor] of sensors.entries()) {
    const { event, outputs } = sensor;
    const names = [event, ...outputs.flatMap((output) => [output.event, output.property])];
    yield* sourceConflicts(['sensors', index], sensor, names);
    if (event === undefined && outputs.length === 0) yield findingAt(['sensors', index], ': name an event, or outputs');
    for (const [number, output] of outputs.entries()) {
      if ((output.event === undefined) !== (output.property === undefined)) continue;
      yield findingAt(['sensors', index, 'outputs', number], ': name an event or a property');
    }
  }
  for (const [index, property] of properties.entries()) {
    yield* sourceConflicts(['properties', index], property, [property.id]);
  }
}

function* sourceConflicts(
  path: readonly PropertyKey[],
  { source, deadband, deadband_percent: percent }: ConfigFile['sensors'][number] | ConfigFile['properties'][number],
  names: readonly (string | undefined)[],
): Generator<Finding> {
  if (source.kind === 'mqtt') yield* brokerConflicts([...path, 'source'], source);
  else if (names.some((name) => name?.includes('{topic}') === true))
    yield findingAt(path, ': only a source of kind "mqtt" has a {topic}');
  if (deadband === undefined || percent === undefined) return;
  const { message } = findingAt(path, ': deadband and deadband_percent exclude each other');
  yield { path: [...path, 'deadband'], message };
}

function* watchConflicts({ watch = [] }: ValidTables): Generator<Finding> {
  for (const [index, { output }] of watch.entries()) {
    if (output.kind === 'mqtt') yield* brokerConflicts(['watch', index, 'output'], output);
  }
}
