import type { BrokerSettings, MeasurementSettings, SourceSettings } from '../../config/telemetry-config.ts';
import { describeError } from '../../system/errors.ts';
import { readGuardedFile } from '../../system/files/guarded-file.ts';
import type { OpenSerialLine } from '../ports.ts';
import { execSource, execStreamSource } from './exec.ts';
import { fileSource } from './file.ts';
import { gpioSource } from './gpio.ts';
import { hwmonSource, thermalSource } from './hwmon.ts';
import { iioSource } from './iio.ts';
import { RtuBuses, modbusTcpSource } from './modbus/modbus.ts';
import type { MqttSettings } from './mqtt.ts';
import { serialSource } from './serial.ts';
import { sourceFailed } from './source.ts';
import type { PushedSource, Reading, Source } from './source.ts';
import { systemSource } from './system.ts';
import { w1Source } from './w1.ts';

export interface SourceContext {
  readonly openLine: OpenSerialLine;
  readonly diskPath: string;
  readonly agentFigures: () => Reading;
}

/** Makes sources as the configuration describes them. Serial buses are shared, so one maker serves all. */
export class SourceMaker {
  readonly #context: SourceContext;
  readonly #buses: RtuBuses;

  constructor(context: SourceContext) {
    this.#context = context;
    this.#buses = new RtuBuses(context.openLine);
  }

  make({ source, timeoutMs }: Pick<MeasurementSettings, 'source' | 'timeoutMs'>): Source {
    if (isKernelSource(source)) return this.#kernelSource(source);
    switch (source.kind) {
      case 'exec':
        return source.stream ? execStreamSource(source) : execSource(source, timeoutMs);
      case 'mqtt':
        return brokerSource(source);
      case 'modbus-tcp':
        return modbusTcpSource(source.host, source.port, source.register);
      case 'modbus-rtu':
        return this.#buses.source({ ...source, timeoutMs }, source.register);
      case 'serial':
        return serialSource(source, this.#context.openLine);
      case 'gpio':
        return gpioSource(source.chip, source.line, source.version, timeoutMs);
    }
  }

  #kernelSource(source: KernelSource): Source {
    switch (source.kind) {
      case 'hwmon':
        return hwmonSource(source.chip, source.input);
      case 'thermal':
        return thermalSource(source.zone);
      case 'iio':
        return iioSource(source.device, source.channel);
      case 'w1':
        return w1Source(source.device);
      case 'file':
        return fileSource(source.path);
      case 'system':
        return systemSource(source.metric, this.#context);
    }
  }
}

type KernelSource = Extract<SourceSettings, { readonly kind: 'hwmon' | 'thermal' | 'iio' | 'w1' | 'file' | 'system' }>;

const kernelKinds: ReadonlySet<string> = new Set(['hwmon', 'thermal', 'iio', 'w1', 'file', 'system']);

function isKernelSource(source: SourceSettings): source is KernelSource {
  return kernelKinds.has(source.kind);
}

function brokerSource(settings: BrokerSettings): PushedSource {
  return {
    kind: 'pushed',
    run: async (intake, signal) => {
      const { mqttSource } = await import('./mqtt.ts'); // a large package, for few
      await mqttSource(await withPassword(settings, signal)).run(intake, signal);
    },
  };
}

/** The password is read each time: it may be changed while the agent runs. */
export async function withPassword(
  { url, topic, username, passwordFile }: BrokerSettings,
  signal: AbortSignal,
): Promise<MqttSettings> {
  const password = passwordFile === undefined ? undefined : await readPassword(passwordFile, signal);
  return { url, topic, username, password };
}

const MAX_PASSWORD_BYTES = 4_096;

async function readPassword(path: string, signal: AbortSignal): Promise<string> {
  try {
    return (await readGuardedFile(path, { maxBytes: MAX_PASSWORD_BYTES }, signal)).toString('utf8').trim();
  } catch (error) {
    throw sourceFailed(path, describeError(error), error);
  }
}
