import * as z from 'zod';

import { configSchema } from './schema.ts';

/** The JSON Schema (draft 2020-12) of the configuration file, for editors. Loaded only on request. */
export function configJsonSchema(): Readonly<Record<string, unknown>> {
  return {
    title: 'Thing Agent configuration',
    ...z.toJSONSchema(configSchema, { io: 'input', override: keepExamples }),
  };
}

/** Zod omits the examples of a schema with `preprocess`; ours are examples of the input. */
function keepExamples({
  zodSchema,
  jsonSchema,
}: {
  zodSchema: z.core.$ZodType;
  jsonSchema: z.core.JSONSchema.BaseSchema;
}) {
  const examples = z.globalRegistry.get(zodSchema)?.['examples'];
  if (Array.isArray(examples)) jsonSchema['examples'] = examples;
}
