import { configTree } from './config-tree.ts';
import type { SchemaNode } from './config-tree.ts';
import { entry, line, pageHead, paragraph, section, subsection } from './roff.ts';
import type { PageHead } from './roff.ts';

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
  const about = node.description === undefined ? [] : [line(`${node.description}.`)];
  const own = name === '' ? [] : [subsection(name, ...about, ...keys)];
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
  const need = isRequired ? 'required' : defaultOf(node);
  const traits = [kindOf(node), need, exampleOf(node)].filter((trait) => trait !== '');
  const description = node.properties === undefined ? node.description : undefined; // a table has it where it stands
  return entry(key, `${traits.join(', ')}.`, ...(description === undefined ? [] : [`${description}.`]));
}

function defaultOf({ default: value }: SchemaNode): string {
  return value === undefined || (typeof value === 'object' && value !== null) ? '' : `default ${JSON.stringify(value)}`;
}

function exampleOf({ default: value, examples: [example] = [] }: SchemaNode): string {
  const isWanted = value === undefined && example !== undefined && typeof example !== 'object';
  return isWanted ? `e.g. ${JSON.stringify(example)}` : '';
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
