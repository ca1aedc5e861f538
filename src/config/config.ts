import { trustSettings } from '../firmware/settings.ts';
import { mcuTargetSchema } from '../mcu/settings.ts';
import type { BoardSettings } from '../mcu/settings.ts';
import { packageTargetSchema } from '../package/settings.ts';
import type { PackageTargetSettings } from '../package/settings.ts';
import { serviceSettings } from '../service/settings.ts';
import { slotsTargetSchema } from '../slots/settings.ts';
import type { SlotsTargetSettings } from '../slots/settings.ts';
import { settingsOf } from '../system/settings/settings.ts';
import { propertySettings, sensorSettings } from '../telemetry/settings.ts';
import type { MeasurementSettings } from '../telemetry/settings.ts';
import { updateSettings } from '../update/settings.ts';
import { pageSettings } from '../web/settings.ts';
import { configSchema } from './schema/schema.ts';
import type { ConfigFile } from './schema/schema.ts';

/** The configuration as the program uses it: every default applied, durations in milliseconds. */
export type Config = ReturnType<typeof resolveConfig>;

/**
 * Translates the settings of the file into the settings of the program. The file has passed the schema and
 * cross-check.ts.
 */
export function resolveConfig(file: ConfigFile) {
  const { device, hooks, report, system, control, log, telemetry, watch } = configSchema.shape;
  const update = updateSettings(file.update);
  const targets: readonly TargetSettings[] = Object.entries(file.targets).map((entry) => resolveTarget(...entry));
  const sensors: readonly MeasurementSettings[] = file.sensors.map(sensorSettings);
  return {
    service: serviceSettings(file.service),
    device: settingsOf(device, file.device),
    paths: file.paths,
    update: { ...update, defaultTarget: update.defaultTarget ?? mainTarget(file.targets) },
    hooks: settingsOf(hooks, file.hooks),
    trust: trustSettings(file.trust),
    report: settingsOf(report, file.report),
    system: settingsOf(system, file.system),
    control: settingsOf(control, file.control),
    page: pageSettings(file.web),
    log: settingsOf(log, file.log),
    targets,
    telemetry: settingsOf(telemetry, file.telemetry),
    measurements: sensors.concat(file.properties.map(propertySettings)),
    watches: settingsOf(watch, file.watch),
  };
}

/** The pair of slots that boots; without one, the only target. */
function mainTarget(targets: ConfigFile['targets']): string | undefined {
  const names = Object.keys(targets);
  const boots = ([, target]: [string, ConfigFile['targets'][string]]): boolean =>
    target.kind === 'slots' && target.bootloader !== undefined;
  return Object.entries(targets).find(boots)?.[0] ?? (names.length === 1 ? names[0] : undefined);
}

export type TargetSettings = SlotsTargetSettings | BoardSettings | PackageTargetSettings;

function resolveTarget(name: string, target: ConfigFile['targets'][string]): TargetSettings {
  switch (target.kind) {
    case 'slots':
      return { name, ...settingsOf(slotsTargetSchema, target) };
    case 'mcu':
      return { name, ...settingsOf(mcuTargetSchema, target) };
    case 'package':
      return { name, ...settingsOf(packageTargetSchema, target) };
  }
}
