/** The settings of src/telemetry/, as the program uses them. */
import type { Command } from '../system/settings/values.ts';

export interface TelemetrySettings {
  readonly groupMs: number;
  readonly groupPoints: number;
  readonly memoryPoints: number;
  readonly bounds: {
    readonly maxBytes: number;
    readonly urgent: ClassBoundSettings;
    readonly normal: ClassBoundSettings;
    readonly bulk: ClassBoundSettings;
  };
  readonly reserveBytes: number;
  readonly flashBytesPerDay: number;
  readonly batchPoints: number;
  readonly gatherMs: number;
  readonly backlogPointsPerSecond: number;
  readonly rate: RateSettings;
  readonly report: SelfReportSettings;
}

/** What one source that speaks by itself may say. */
export interface RateSettings {
  readonly pointsPerSecond: number;
  readonly bytesPerSecond: number;
}

export interface ClassBoundSettings {
  readonly maxAgeMs: number;
  readonly maxBytes: number;
}

/** Properties in which the agent tells about itself; undefined: it does not. */
export interface SelfReportSettings {
  readonly everyMs: number;
  readonly installed: string | undefined;
  readonly slot: string | undefined;
  readonly outcome: string | undefined;
  readonly reason: string | undefined;
  readonly uptime: string | undefined;
  readonly figures: string | undefined;
}

/** One source, and what is made of its readings: sensors and properties alike. */
export interface MeasurementSettings {
  /** For a person: `sensors[0] (temperature)`. */
  readonly name: string;
  readonly everyMs: number;
  readonly timeoutMs: number;
  readonly source: SourceSettings;
  readonly outputs: readonly OutputSettings[];
}

export interface OutputSettings {
  readonly to:
    | { readonly kind: 'event'; readonly event: string; readonly class: 'urgent' | 'normal' | 'bulk' }
    | { readonly kind: 'property'; readonly id: string };
  /** RFC 6901; empty: the whole reading. */
  readonly pointer: string;
  readonly reduction: ReductionSettings;
}

export interface ReductionSettings {
  readonly scale: number;
  readonly offset: number;
  readonly deadband: { readonly kind: 'absolute' | 'relative'; readonly value: number } | undefined;
  readonly heartbeatMs: number | undefined;
  readonly over: { readonly periodMs: number; readonly keep: 'mean' | 'min' | 'max' | 'last' } | undefined;
}

export interface BrokerSettings {
  readonly url: string;
  readonly topic: string;
  readonly username: string | undefined;
  readonly passwordFile: string | undefined;
}

export interface RegisterSettings {
  readonly unit: number;
  readonly table: 'holding' | 'input' | 'coil' | 'discrete-input';
  readonly address: number;
  readonly type: 'u16' | 'i16' | 'u32' | 'i32' | 'f32' | 'u64' | 'i64' | 'f64';
  readonly byteOrder: 'big' | 'little';
  readonly wordOrder: 'big' | 'little';
}

/** A source that speaks by itself; undefined: it may be silent for ever. */
interface MaySpeak {
  readonly silenceMs: number | undefined;
}

export type SourceSettings =
  | ({
      readonly kind: 'exec';
      readonly command: Command;
      readonly user?: string | undefined;
      readonly stream: boolean;
    } & MaySpeak)
  | ({ readonly kind: 'mqtt' } & BrokerSettings & MaySpeak)
  | { readonly kind: 'modbus-tcp'; readonly host: string; readonly port: number; readonly register: RegisterSettings }
  | {
      readonly kind: 'modbus-rtu';
      readonly path: string;
      readonly baud: number;
      readonly parity: 'none' | 'even';
      readonly register: RegisterSettings;
    }
  | { readonly kind: 'hwmon'; readonly chip: string; readonly input: string }
  | { readonly kind: 'thermal'; readonly zone: string }
  | { readonly kind: 'iio'; readonly device: string; readonly channel: string }
  | { readonly kind: 'w1'; readonly device: string }
  | {
      readonly kind: 'serial';
      readonly path: string;
      readonly baud: number;
      readonly pattern: RegExp | undefined;
      readonly silenceMs: number;
    }
  | { readonly kind: 'gpio'; readonly chip: string; readonly line: number; readonly version: 1 | 2 }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'system'; readonly metric: SystemMetric };

export type SystemMetric =
  | 'load1'
  | 'memory_used_percent'
  | 'memory_available_bytes'
  | 'disk_used_percent'
  | 'disk_free_bytes'
  | 'network_received_bytes'
  | 'network_sent_bytes'
  | 'cpu_temperature'
  | 'uptime'
  | 'throttled'
  | 'agent_memory_bytes'
  | 'agent';

/** A property that is polled; its value goes somewhere when it changes. */
export interface WatchSettings {
  readonly id: string;
  readonly everyMs: number;
  readonly into:
    | {
        readonly kind: 'command';
        readonly command: Command;
        readonly user?: string | undefined;
        readonly timeoutMs: number;
      }
    | { readonly kind: 'file'; readonly path: string }
    | ({ readonly kind: 'mqtt' } & BrokerSettings);
}
