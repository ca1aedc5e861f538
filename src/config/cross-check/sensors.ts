import type { Finding } from '../cross-check.ts';
import { keyPath } from '../file/problems.ts';
import type { ConfigFile } from '../schema/schema.ts';

export function sensorContradictions(
  sensors: ConfigFile['sensors'],
  properties: ConfigFile['properties'],
): readonly Finding[] {
  const findings: Finding[] = [...topicContradictions(sensors, properties)];
  for (const [index, { event, outputs }] of sensors.entries()) {
    const path = ['sensors', index];
    if (event === undefined && outputs.length === 0) {
      findings.push({ path, message: `sensors[${index}]: name an event, or outputs` });
    }
    for (const [number, output] of outputs.entries()) {
      if ((output.event === undefined) !== (output.property === undefined)) continue;
      const where = `sensors[${index}].outputs[${number}]`;
      findings.push({ path: [...path, 'outputs', number], message: `${where}: name an event or a property` });
    }
  }
  for (const [table, all] of [['sensors', sensors] as const, ['properties', properties] as const]) {
    for (const [index, { deadband, deadband_percent: percent }] of all.entries()) {
      if (deadband === undefined || percent === undefined) continue;
      findings.push({
        path: [table, index, 'deadband'],
        message: `${table}[${index}]: deadband and deadband_percent exclude each other`,
      });
    }
  }
  return findings;
}

function topicContradictions(sensors: ConfigFile['sensors'], properties: ConfigFile['properties']): readonly Finding[] {
  const named = [
    ...sensors.map(({ event, outputs, source }, index) => {
      const names = [event, ...outputs.flatMap((output) => [output.event, output.property])];
      return { path: ['sensors', index], source, names };
    }),
    ...properties.map(({ id, source }, index) => ({ path: ['properties', index], source, names: [id] })),
  ];
  return named.flatMap(({ path, source, names }) => {
    if (source.kind === 'mqtt' || !names.some((name) => name?.includes('{topic}') === true)) return [];
    return [{ path, message: `${keyPath(path)}: only a source of kind "mqtt" has a {topic}` }];
  });
}
