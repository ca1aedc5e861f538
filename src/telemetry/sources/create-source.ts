import assert from 'node:assert';

import { withName } from '../../system/settings/described.ts';
import type { MeasurementSettings } from '../settings.ts';
import type { RtuBuses } from './modbus/modbus.ts';
import type { Source, SharedSourceDeps } from './source.ts';
import { sources } from './sources.ts';

/** Makes sources as the configuration describes them. Serial buses are shared, so one maker serves all. */
export class SourceMaker {
  readonly #deps: SharedSourceDeps;
  #buses: RtuBuses | undefined;

  constructor(deps: SharedSourceDeps) {
    this.#deps = deps;
  }

  make({ source, timeoutMs }: Pick<MeasurementSettings, 'source' | 'timeoutMs'>): Source {
    const { create, speaks } = withName(sources, source.kind);
    const deps = { ...this.#deps, timeoutMs, buses: async () => this.#sharedBuses() };
    return lateSource(speaks(source) ? 'pushed' : 'polled', async () => create(source, deps));
  }

  async #sharedBuses(): Promise<RtuBuses> {
    const { RtuBuses } = await import('./modbus/modbus.ts');
    return (this.#buses ??= new RtuBuses(this.#deps.openLine));
  }
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
