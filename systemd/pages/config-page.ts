import { z } from 'zod';

import { configJsonSchema } from '../../src/config/schema/json-schema.ts';
import { entry, line, pageHead, paragraph, section, subsection } from './roff.ts';
import type { PageHead } from './roff.ts';

/** What this page reads of JSON Schema (draft 2020-12). */
export interface SchemaNode {
  readonly description?: string | undefined;
  readonly type?: string | undefined;
  readonly pattern?: string | undefined;
  readonly default?: unknown;
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

function configTree(): SchemaNode {
  return schemaNode.parse(configJsonSchema());
}

/** thing-agent.toml(5), from the schema of the configuration. */
export function configPage(head: Omit<PageHead, 'name' | 'manual'>): string {
  return [
    pageHead({ ...head, name: 'THING-AGENT.TOML', manual: 5 }),
    section('Name', line('thing-agent.toml - configuration of the Thing Agent, /etc/thing-agent/config.toml')),
    section(
      'Description',
      line('TOML 1.0. `agent config check` names what is wrong with its line, `agent config show` what is in effect.'),
      paragraph(
        'Durations are texts such as "90s" or "1h30m", sizes such as "64MiB". Files are named by absolute paths.',
      ),
    ),
    section('Keys', ...tables('', configTree(), new Map())),
    section('See also', line('agent(8)')),
  ].join('');
}

/** A table with its keys, and the tables in it. What was described already is named only: a schema may stand at two places. */
function tables(name: string, node: SchemaNode, described: Map<string, string>): readonly string[] {
  const properties = Object.entries(node.properties ?? {});
  const required = new Set(node.required);
  const keys = properties.map(([key, child]) => keyEntry(key, child, required.has(key)));
  const own = name === '' ? [] : [subsection(name, ...keys)];
  return [
    ...own,
    ...properties.flatMap(([key, child]) => within(name === '' ? key : `${bare(name)}.${key}`, child, described)),
  ];
}

function within(name: string, node: SchemaNode, described: Map<string, string>): readonly string[] {
  const { additionalProperties: named, items } = node;
  const choices = [...(node.oneOf ?? []), ...(node.anyOf ?? [])];
  if (choices.some((choice) => choice.properties !== undefined)) return alternatives(name, choices, described);
  const lists = choices.filter((choice) => choice.items?.properties !== undefined);
  if (lists.length > 0) return lists.flatMap((list) => within(name, list, described));
  if (node.properties !== undefined) return tables(`[${name}]`, node, described);
  if (typeof named === 'object') return within(`${name}.NAME`, named, described);
  if (items !== undefined) return within(items.properties === undefined ? name : `[${name}]`, items, described);
  return [];
}

function alternatives(name: string, choices: readonly SchemaNode[], described: Map<string, string>): readonly string[] {
  const content = JSON.stringify(choices);
  const before = described.get(content);
  if (before !== undefined) return [subsection(`[${name}]`, line(`The same as [${before}].`))];
  described.set(content, name);
  return choices
    .filter((choice) => choice.properties !== undefined)
    .flatMap((choice) => {
      const kind = choice.properties?.['kind']?.const;
      return tables(kind === undefined ? `[${name}]` : `[${name}] kind = ${JSON.stringify(kind)}`, choice, described);
    });
}

/** `[targets.NAME] kind = "slots"` → `targets.NAME`. */
function bare(name: string): string {
  return name.replace(/\].*$/, '').replace(/^\[+/, '');
}

function keyEntry(key: string, node: SchemaNode, isRequired: boolean): string {
  const traits = [kindOf(node), isRequired ? 'required' : defaultOf(node)].filter((trait) => trait !== '');
  const { description } = node;
  return entry(key, `${traits.join(', ')}.`, ...(description === undefined ? [] : [`${description}.`]));
}

function defaultOf({ default: value }: SchemaNode): string {
  return value === undefined || (typeof value === 'object' && value !== null) ? '' : `default ${JSON.stringify(value)}`;
}

function kindOf(node: SchemaNode): string {
  if (node.const !== undefined) return JSON.stringify(node.const);
  if (node.enum !== undefined) return node.enum.map((value) => JSON.stringify(value)).join(' | ');
  const choices = node.oneOf ?? node.anyOf;
  if (choices !== undefined) return [...new Set(choices.map(kindOf))].join(' or ');
  if (node.type === 'array') return node.items === undefined ? 'list' : `list of: ${kindOf(node.items)}`;
  if (node.type === 'object') return 'table';
  if (node.type === 'string') return textKind(node.pattern);
  return `${node.type ?? 'value'}${rangeOf(node)}`;
}

/** By an end of the patterns in config/schema/values.ts and duration.ts. */
function textKind(pattern: string | undefined): string {
  if (pattern?.includes('ms)?$') === true) return 'duration';
  if (pattern?.includes('iB') === true) return 'size';
  return pattern?.startsWith('^\\/') === true ? 'absolute path' : 'text';
}

function rangeOf({ minimum, maximum }: SchemaNode): string {
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  if (minimum !== undefined && isBounded) return ` from ${minimum} to ${maximum}`;
  return isBounded ? ` up to ${maximum}` : '';
}
