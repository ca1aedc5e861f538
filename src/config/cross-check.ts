import { parseUtcTime } from '../system/time/utc-time.ts';
import { measuringContradictions } from './cross-check/brokers.ts';
import { sensorContradictions } from './cross-check/sensors.ts';
import { serviceContradictions } from './cross-check/service.ts';
import { defaultTargetContradictions, targetContradictions } from './cross-check/targets.ts';
import { webConflicts } from './cross-check/web.ts';
import type { ConfigFile, ValidTables } from './schema/schema.ts';

/** A contradiction between settings; `path` is the one to change. */
export interface Finding {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Finds contradictions between settings that are correct in themselves. */
export function findConflicts(tables: ValidTables): readonly Finding[] {
  const { service, update, trust, web: page, targets, sensors, properties } = tables;
  return [
    ...keyContradictions(trust?.keys ?? []),
    ...writableReportProperties(tables),
    ...(page === undefined ? [] : webConflicts(page)),
    ...(service === undefined ? [] : serviceContradictions(service)),
    ...(targets === undefined || update === undefined ? [] : defaultTargetContradictions(targets, update)),
    ...targetContradictions(targets ?? {}),
    ...sensorContradictions(sensors ?? [], properties ?? []),
    ...measuringContradictions(tables),
  ];
}

function keyContradictions(keys: ConfigFile['trust']['keys']): readonly Finding[] {
  return keys.flatMap((key, index) => {
    if (typeof key === 'string' || key.not_before === undefined || key.not_after === undefined) return [];
    if ((parseUtcTime(key.not_before) ?? 0) < (parseUtcTime(key.not_after) ?? 0)) return [];
    return [{ path: ['trust', 'keys', index], message: `trust.keys[${index}]: not_after is not after not_before` }];
  });
}

/**
 * Refuses a reported property that members of the group may write: each of them could tell the service how an update
 * ended.
 */
function writableReportProperties({ report, control }: ValidTables): readonly Finding[] {
  const at = control?.properties.findIndex((id) => id === report?.outcome) ?? -1;
  if (at === -1) return [];
  return [
    {
      path: ['control', 'properties', at],
      message: `control.properties[${at}] is report.outcome, which the agent alone writes`,
    },
  ];
}
