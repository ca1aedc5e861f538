import { updateSchema } from '../../../src/config/schema/update-schema.ts';
import { parseDuration } from '../../../src/system/time/duration.ts';
import type { Defaults } from './scenarios.ts';

/** Of a configuration that says nothing about them. */
export function defaultsOfConfig(): Defaults {
  const { schedule, splay } = updateSchema.parse({});
  return { schedule, splayMs: parseDuration(splay) ?? 0 };
}
