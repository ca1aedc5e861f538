import { z } from 'zod';

import { configJsonSchema } from '../../src/config/schema/json-schema.ts';

/** The part of JSON Schema (draft 2020-12) that the pages use. */
export interface SchemaNode {
  readonly description?: string | undefined;
  readonly type?: string | undefined;
  readonly pattern?: string | undefined;
  readonly default?: unknown;
  readonly examples?: readonly unknown[] | undefined;
  readonly const?: unknown;
  readonly enum?: readonly unknown[] | undefined;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly properties?: Readonly<Record<string, SchemaNode>> | undefined;
  readonly required?: readonly string[] | undefined;
  readonly additionalProperties?: SchemaNode | boolean | undefined;
  readonly items?: SchemaNode | undefined;
  readonly oneOf?: readonly SchemaNode[] | undefined;
  readonly anyOf?: readonly SchemaNode[] | undefined;
}

const schemaNode: z.ZodType<SchemaNode> = z.looseObject({
  description: z.string().optional(),
  type: z.string().optional(),
  pattern: z.string().optional(),
  examples: z.array(z.unknown()).optional(),
  enum: z.array(z.unknown()).optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  required: z.array(z.string()).optional(),
  get properties() {
    return z.record(z.string(), schemaNode).optional();
  },
  get additionalProperties() {
    return z.union([z.boolean(), schemaNode]).optional();
  },
  get items() {
    return schemaNode.optional();
  },
  get oneOf() {
    return z.array(schemaNode).optional();
  },
  get anyOf() {
    return z.array(schemaNode).optional();
  },
});

/** The schema of the configuration. */
export function configTree(): SchemaNode {
  return schemaNode.parse(configJsonSchema());
}

/** Returns the description, with the possible words if it omits them. */
export function describe({ description = '', enum: words = [] }: SchemaNode): string {
  const isComplete = words.every((word) => description.includes(JSON.stringify(word)));
  const parts = [description, isComplete ? '' : listed(words, ' or ')].filter((part) => part !== '');
  return parts.length === 0 ? '' : `${parts.join(': ')}.`;
}

/** `"a", "b" or "c"` */
export function listed(words: readonly unknown[], last: string): string {
  const texts = words.map((word) => JSON.stringify(word));
  return [...texts.slice(0, -2).map((text) => `${text}, `), texts.slice(-2).join(last)].join('');
}

export function requires({ required = [] }: SchemaNode, key: string): boolean {
  return required.includes(key);
}

export function propertiesOf(node: SchemaNode | undefined): Readonly<Record<string, SchemaNode>> {
  return node?.properties ?? {};
}

export function choicesOf(node: SchemaNode | undefined): readonly SchemaNode[] {
  return node?.oneOf ?? node?.anyOf ?? [];
}

/** The `kind` of one of several tables. */
export function kindOf(table: SchemaNode): string {
  return String(propertiesOf(table)['kind']?.const);
}
