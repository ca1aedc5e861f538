import { withName } from '../../system/settings/described.ts';
import { sources } from '../settings.ts';
import type { MeasurementSettings } from '../settings.ts';
import { RtuBuses } from './modbus/modbus.ts';
import type { Source, SharedSourceDeps } from './source.ts';

/** Makes sources as the configuration describes them. Serial buses are shared, so one maker serves all. */
export class SourceMaker {
  readonly #deps: SharedSourceDeps;
  readonly #buses: RtuBuses;

  constructor(deps: SharedSourceDeps) {
    this.#deps = deps;
    this.#buses = new RtuBuses(deps.openLine);
  }

  make({ source, timeoutMs }: Pick<MeasurementSettings, 'source' | 'timeoutMs'>): Source {
    return withName(sources, source.kind).create(source, { ...this.#deps, timeoutMs, buses: this.#buses });
  }
}
