import * as z from 'zod';

import { configSchema } from './schema.ts';

/** The JSON Schema (draft 2020-12) of the configuration file, for editors. Loaded only when a person asks for it. */
export function configJsonSchema(): Readonly<Record<string, unknown>> {
  return { title: 'Thing Agent configuration', ...z.toJSONSchema(configSchema, { io: 'input' }) };
}
