import { withName } from '../../system/settings/described.ts';
import { sources } from '../settings.ts';
import type { MeasurementSettings } from '../settings.ts';
import { RtuBuses } from './modbus/modbus.ts';
import type { Source, SourceContext } from './source.ts';

/** Makes sources as the configuration describes them. Serial buses are shared, so one maker serves all. */
export class SourceMaker {
  readonly #context: SourceContext;
  readonly #buses: RtuBuses;

  constructor(context: SourceContext) {
    this.#context = context;
    this.#buses = new RtuBuses(context.openLine);
  }

  make({ source, timeoutMs }: Pick<MeasurementSettings, 'source' | 'timeoutMs'>): Source {
    return withName(sources, source.kind).create(source, { ...this.#context, timeoutMs, buses: this.#buses });
  }
}
