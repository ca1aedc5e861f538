import assert from 'node:assert';

import { abortable } from '../../system/abortable.ts';
import { withName } from '../../system/settings/described.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { TelemetryError } from '../errors.ts';
import type { MeasurementSettings } from '../settings.ts';
import type { ModbusDevices } from './modbus/modbus.ts';
import type { PolledSource, Source, SharedSourceDeps } from './source.ts';
import { sources } from './sources.ts';

type Timed = Pick<MeasurementSettings, 'name' | 'timeoutMs'>;

/** Makes sources as the configuration describes them. They share lines and devices, so one maker serves all. */
export class SourceMaker implements Disposable {
  readonly #deps: SharedSourceDeps;
  #modbus: ModbusDevices | undefined;

  constructor(deps: SharedSourceDeps) {
    this.#deps = deps;
  }

  make({ source, ...timed }: Timed & Pick<MeasurementSettings, 'source'>): Source {
    const { create, speaks, takesTurns } = withName(sources, source.kind);
    const deps = { ...this.#deps, ...timed, modbus: async () => this.#sharedModbus() };
    const late = lateSource(speaks(source) ? 'pushed' : 'polled', async () => create(source, deps));
    return late.kind === 'pushed' || takesTurns ? late : inTime(late, timed);
  }

  [Symbol.dispose](): void {
    this.#modbus?.[Symbol.dispose]();
  }

  async #sharedModbus(): Promise<ModbusDevices> {
    const { ModbusDevices } = await import('./modbus/modbus.ts');
    return (this.#modbus ??= new ModbusDevices(this.#deps.openLine, this.#deps.clock));
  }
}

/** A source whose readings end after their time. It is not read again while one of them hangs. */
export function inTime(source: PolledSource, { name, timeoutMs }: Timed): PolledSource {
  let hanging: Promise<void> | undefined;
  const over = (): void => {
    hanging = undefined;
  };
  const late = (): Error => new TelemetryError('source-timeout', `${name}: no reading within ${timeoutMs} ms`);
  const read: PolledSource['read'] = async (signal) => {
    if (hanging !== undefined) throw new TelemetryError('source-timeout', `${name}: still waits for the last reading`);
    using deadline = new Deadline(timeoutMs, late, signal);
    const reading = source.read(deadline.signal);
    try {
      return await abortable(reading, deadline.signal);
    } finally {
      if (deadline.signal.aborted) hanging = reading.then(over, over);
    }
  };
  return { kind: 'polled', read };
}

/** A source that is loaded when it is first read. */
function lateSource(kind: Source['kind'], make: () => Promise<Source>): Source {
  let made: Source | undefined;
  const source = async (): Promise<Source> => (made ??= await make());
  if (kind === 'polled') {
    return {
      kind,
      read: async (signal) => {
        const polled = await source();
        assert(polled.kind === kind);
        return polled.read(signal);
      },
      get notice() {
        return made?.kind === 'polled' ? made.notice : undefined;
      },
    };
  }
  return {
    kind,
    run: async (intake, signal) => {
      const pushed = await source();
      assert(pushed.kind === kind);
      return pushed.run(intake, signal);
    },
  };
}
