import type { TelemetryStatus } from '../../../src/telemetry/telemetry-status.ts';

/** What one sensor, one board or one member of the group does to the daemon. */
export interface Attack {
  /** Completes "against a daemon …". */
  readonly name: string;
  /** Makes what the sensors of this configuration read; `place` is a folder of its own. */
  readonly prepare: (place: string) => Promise<{ readonly toml: string; readonly world?: AsyncDisposable }>;
  /** What is asked through the control socket. */
  readonly act?: (socketPath: string) => Promise<void>;
  /** It has reached the daemon. */
  readonly isSeen: (status: TelemetryStatus) => boolean;
}

type SourceStatus = TelemetryStatus['sources'][number];

/** Every sensor of the configuration has failed, or had something of it dropped. */
export function everySource(condition: (source: SourceStatus) => boolean): Attack['isSeen'] {
  return ({ sources }) => sources.length > 0 && sources.every(condition);
}

export function sensor(event: string, source: string, more = ''): string {
  return `\n[[sensors]]\nevent = "${event}"\nevery = "200ms"\ntimeout = "2s"\nsource = { ${source} }\n${more}`;
}

/** As TOML. */
export function shell(script: string): string {
  return JSON.stringify(['sh', '-c', script]);
}
