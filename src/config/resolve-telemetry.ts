import { durationMs, sizeBytes } from '../system/settings/values.ts';
import type { ConfigFile } from './schema/schema.ts';
import type {
  BrokerSettings,
  MeasurementSettings,
  OutputSettings,
  ReductionSettings,
  RegisterSettings,
  SourceSettings,
  TelemetrySettings,
  WatchSettings,
} from './telemetry-config.ts';

export function resolveTelemetry({ telemetry }: ConfigFile): TelemetrySettings {
  const bounds = (name: 'urgent' | 'normal' | 'bulk') => ({
    maxAgeMs: durationMs(telemetry[name].max_age),
    maxBytes: telemetry[name].max_bytes,
  });
  const { every, installed, slot, outcome, reason, uptime, figures } = telemetry.report;
  return {
    groupMs: durationMs(telemetry.group),
    groupPoints: telemetry.group_points,
    memoryPoints: telemetry.memory_points,
    bounds: {
      maxBytes: telemetry.max_bytes,
      urgent: bounds('urgent'),
      normal: bounds('normal'),
      bulk: bounds('bulk'),
    },
    reserveBytes: telemetry.reserve_bytes,
    flashBytesPerDay: telemetry.flash_bytes_per_day,
    batchPoints: telemetry.batch_points,
    gatherMs: durationMs(telemetry.gather),
    backlogPointsPerSecond: telemetry.backlog_points_per_second,
    rate: {
      pointsPerSecond: telemetry.source_points_per_second,
      bytesPerSecond: sizeBytes(telemetry.source_bytes_per_second),
    },
    report: { everyMs: durationMs(every), installed, slot, outcome, reason, uptime, figures },
  };
}

export function resolveMeasurements({ sensors, properties }: ConfigFile): readonly MeasurementSettings[] {
  return [...sensors.map(resolveSensor), ...properties.map(resolveProperty)];
}

type Sensor = ConfigFile['sensors'][number];
type Property = ConfigFile['properties'][number];
type Treatment = Omit<Property, 'id' | 'every' | 'timeout' | 'source'>;

function resolveSensor(sensor: Sensor, index: number): MeasurementSettings {
  const { event, outputs } = sensor;
  const first: OutputSettings[] =
    event === undefined ? [] : [output({ kind: 'event', event, class: sensor.class }, sensor)];
  const more = outputs.flatMap((one): OutputSettings[] => {
    if (one.event !== undefined) return [output({ kind: 'event', event: one.event, class: one.class }, one)];
    return one.property === undefined ? [] : [output({ kind: 'property', id: one.property }, one)];
  });
  const name = `sensors[${index}]${event === undefined ? '' : ` (${event})`}`;
  return { name, ...polling(sensor), outputs: [...first, ...more] };
}

function resolveProperty(property: Property, index: number): MeasurementSettings {
  const { id } = property;
  const name = `properties[${index}] (${id})`;
  return { name, ...polling(property), outputs: [output({ kind: 'property', id }, property)] };
}

function polling({ every, timeout, source }: Pick<Sensor, 'every' | 'timeout' | 'source'>) {
  return { everyMs: durationMs(every), timeoutMs: durationMs(timeout), source: resolveSource(source) };
}

function output(to: OutputSettings['to'], treatment: Treatment): OutputSettings {
  const { pointer, scale, offset, deadband, deadband_percent: percent, heartbeat, over, keep } = treatment;
  const reduction: ReductionSettings = {
    scale,
    offset,
    deadband:
      deadband !== undefined
        ? { kind: 'absolute', value: deadband }
        : percent === undefined
          ? undefined
          : { kind: 'relative', value: percent / 100 },
    heartbeatMs: heartbeat === undefined ? undefined : durationMs(heartbeat),
    over: over === undefined ? undefined : { periodMs: durationMs(over), keep },
  };
  return { to, pointer: pointer ?? '', reduction };
}

function resolveSource(source: Sensor['source']): SourceSettings {
  if (source.kind === 'exec') {
    const { command, user, stream } = source;
    return { kind: 'exec', command, user, stream, silenceMs: silenceMs(source) };
  }
  if (source.kind === 'mqtt') return { kind: 'mqtt', ...resolveBroker(source), silenceMs: silenceMs(source) };
  if (source.kind === 'modbus-tcp') {
    return { kind: 'modbus-tcp', host: source.host, port: source.port, register: resolveRegister(source) };
  }
  if (source.kind === 'modbus-rtu') {
    const { port, baud, parity } = source;
    return { kind: 'modbus-rtu', path: port, baud, parity, register: resolveRegister(source) };
  }
  if (source.kind !== 'serial') return source;
  const { port, baud, pattern, silence } = source;
  const expression = pattern === undefined ? undefined : new RegExp(pattern);
  return { kind: 'serial', path: port, baud, pattern: expression, silenceMs: durationMs(silence) };
}

function silenceMs({ silence }: { readonly silence?: string | undefined }): number | undefined {
  return silence === undefined ? undefined : durationMs(silence);
}

function resolveRegister(source: Extract<Sensor['source'], { kind: 'modbus-tcp' | 'modbus-rtu' }>): RegisterSettings {
  const { unit, table, address, type, byte_order: byteOrder, word_order: wordOrder } = source;
  return { unit, table, address, type, byteOrder, wordOrder };
}

interface BrokerFile {
  readonly url: string;
  readonly topic: string;
  readonly username?: string | undefined;
  readonly password_file?: string | undefined;
}

function resolveBroker({ url, topic, username, password_file: passwordFile }: BrokerFile): BrokerSettings {
  return { url, topic, username, passwordFile };
}

export function resolveWatches({ watch }: ConfigFile): readonly WatchSettings[] {
  return watch.map(({ id, every, into }) => {
    const common = { id, everyMs: durationMs(every) };
    switch (into.kind) {
      case 'command':
        return {
          ...common,
          into: { kind: 'command', command: into.command, user: into.user, timeoutMs: durationMs(into.timeout) },
        };
      case 'file':
        return { ...common, into };
      case 'mqtt':
        return { ...common, into: { kind: 'mqtt', ...resolveBroker(into) } };
    }
  });
}
