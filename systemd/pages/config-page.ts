import { configTree } from './config-tree.ts';
import type { SchemaNode } from './config-tree.ts';
import { entry, line, pageHead, paragraph, section, subsection } from './roff.ts';
import type { PageHead } from './roff.ts';

/** One table of the configuration, such as `[service]` or `[targets.NAME] kind = "slots"`. */
export interface SettingsTable {
  readonly title: string;
  readonly about: string | undefined;
  readonly settings: readonly Setting[];
}

export interface Setting {
  readonly key: string;
  readonly kind: string;
  /** `required`, or empty. */
  readonly need: string;
  /** The default in TOML, or empty. */
  readonly standard: string;
  /** An example in TOML if there is no default, or empty. */
  readonly example: string;
  readonly meaning: string | undefined;
}

/** Returns each table of the configuration, from its schema. */
export function settingsTables(): readonly SettingsTable[] {
  return tables('', configTree(), new Map());
}

/** thing-agent.toml(5), from the schema of the configuration. */
export function configPage(head: Omit<PageHead, 'name' | 'manual'>): string {
  return [
    pageHead({ ...head, name: 'THING-AGENT.TOML', manual: 5 }),
    section('Name', line('thing-agent.toml - configuration of the Thing Agent, /etc/thing-agent/config.toml')),
    section(
      'Description',
      line(
        'TOML 1.0. `agent config check` reports mistakes with their lines, `agent config show` prints the settings in effect.',
      ),
      paragraph(
        'Durations are texts such as "90s" or "1h30m", sizes such as "64MiB". Files are named by absolute paths.',
      ),
    ),
    section('Keys', ...settingsTables().map(tableSection)),
    section('See also', line('agent(8)')),
  ].join('');
}

function tableSection({ title, about, settings }: SettingsTable): string {
  return subsection(title, ...(about === undefined ? [] : [line(about)]), ...settings.map(settingEntry));
}

function settingEntry({ key, kind, need, standard, example, meaning }: Setting): string {
  const traits = [
    kind,
    need === '' && standard !== '' ? `default ${standard}` : need,
    example === '' ? '' : `e.g. ${example}`,
  ].filter((trait) => trait !== '');
  return entry(key, `${traits.join(', ')}.`, ...(meaning === undefined ? [] : [`${meaning}.`]));
}

/** A table with its keys, and the tables in it. A schema that is used at two places is described once. */
function tables(name: string, node: SchemaNode, described: Map<string, string>): readonly SettingsTable[] {
  const properties = Object.entries(node.properties ?? {});
  const required = new Set(node.required);
  const settings = properties.map(([key, child]) => settingOf(key, child, required.has(key)));
  const about = node.description === undefined ? undefined : `${node.description}.`;
  const own = name === '' ? [] : [{ title: name, about, settings }];
  return [
    ...own,
    ...properties.flatMap(([key, child]) => within(name === '' ? key : `${bare(name)}.${key}`, child, described)),
  ];
}

function within(name: string, node: SchemaNode, described: Map<string, string>): readonly SettingsTable[] {
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

function alternatives(
  name: string,
  choices: readonly SchemaNode[],
  described: Map<string, string>,
): readonly SettingsTable[] {
  const content = JSON.stringify(choices);
  const before = described.get(content);
  if (before !== undefined) return [{ title: `[${name}]`, about: `The same as [${before}].`, settings: [] }];
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

function settingOf(key: string, node: SchemaNode, isRequired: boolean): Setting {
  return {
    key,
    kind: kindOf(node),
    need: isRequired ? 'required' : '',
    standard: isRequired ? '' : defaultOf(node),
    example: exampleOf(node),
    meaning: meaningOf(node),
  };
}

/** A table is described at its own title, and the only value of `kind` is in the title. */
function meaningOf({ properties, const: kind, description }: SchemaNode): string | undefined {
  if (properties !== undefined) return 'See the table of this name';
  return kind === undefined ? description : (description ?? 'Selects these settings');
}

function defaultOf({ default: value }: SchemaNode): string {
  const isShown = value !== undefined && (typeof value !== 'object' || (Array.isArray(value) && value.length > 0));
  return isShown ? JSON.stringify(value) : '';
}

function exampleOf({ default: value, examples: [example] = [] }: SchemaNode): string {
  const isWanted = value === undefined && example !== undefined && typeof example !== 'object';
  return isWanted ? JSON.stringify(example) : '';
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
  return pattern?.startsWith('^\\/[') === true ? 'absolute path' : 'text';
}

function rangeOf({ minimum, maximum }: SchemaNode): string {
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  if (minimum !== undefined && isBounded) return ` from ${minimum} to ${maximum}`;
  return isBounded ? ` up to ${maximum}` : '';
}
