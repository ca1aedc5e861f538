import { parseDuration } from '../../../src/system/time/duration.ts';
import { updateSchema } from '../../../src/update/settings.ts';
import type { Defaults } from './scenarios.ts';

/** Defaults of a configuration without these settings. */
export function defaultsOfConfig(): Defaults {
  const { schedule, splay } = updateSchema.parse({});
  return { schedule, splayMs: parseDuration(splay) ?? 0 };
}
