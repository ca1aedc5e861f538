import { parseDuration } from '../../../src/system/time/duration.ts';
import { updateSchema } from '../../../src/update/settings.ts';
import type { Defaults } from './scenarios.ts';

/** Of a configuration that says nothing about them. */
export function defaultsOfConfig(): Defaults {
  const { schedule, splay } = updateSchema.parse({});
  return { schedule, splayMs: parseDuration(splay) ?? 0 };
}
