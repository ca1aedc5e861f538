import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';

import { boardProtocols } from '../../src/config/schema/schema.ts';
import { protocolsWith } from '../../src/mcu/settings.ts';
import { runTool } from '../make/run-tool.ts';
import { configReference, configReferencePath } from './config-reference.ts';
import { choicesOf, configTree, describe, kindOf, listed, propertiesOf, requires } from './config-tree.ts';
import type { SchemaNode } from './config-tree.ts';
import { assignment, comment, isTable, unbroken } from './toml-text.ts';

/** The configuration that is installed, from the schema: `npm run config` writes it, a test compares. */
export const configExamplePath = join(import.meta.dirname, '../config.toml');

const intro = `# Configuration of the Thing Agent. Check changes with: agent config check
# A line with a single "#" is a setting with its default, unless the comment above it or its table starts with "Example".
`;

/** Settings that are set although they are not required. */
const alsoSet = new Set(['trust.keys', 'targets.gateway.bootloader']);

/** Tables whose name is in force though nothing in them is set. */
const alsoOpen = new Set(['update']);

export function configExample(): string {
  const root = configTree();
  const tables = Object.entries(propertiesOf(root)).map(
    ([name, node]) => chosen[name]?.(node) ?? table(name, node, isThere(root, name)),
  );
  return [intro, ...tables].join('\n');
}

/** The tables whose names, or number, an integrator chooses. */
const chosen: Readonly<Record<string, (node: SchemaNode) => string>> = {
  targets: ({ additionalProperties: named }) => {
    const [slots, ...others] = isTable(named) ? choicesOf(named) : [];
    if (slots === undefined) throw new Error('there is no kind of target');
    return [
      table('targets.gateway', slots, true) + bootloaderKinds(propertiesOf(slots)['bootloader']),
      ...others.map((other) => sketch(`targets.${targetNames[kindOf(other)] ?? kindOf(other)}`, other)),
    ].join('\n');
  },
  sensors: ({ items: sensor }) => {
    const kinds = listed(choicesOf(propertiesOf(sensor)['source']).map(kindOf), ', ');
    const introduction = `What the gateway measures. Sources: ${kinds}; \`agent config schema\` has their settings. A serial port may be that of a board above.`;
    const further = 'Further settings of [[sensors]], their outputs and [[properties]]: defaults, or examples.';
    return `${comment('##', introduction)}${sensorExamples}\n${comment('##', further)}${furtherSettings(sensor)}`;
  },
  properties: () => propertyExample,
  watch: () => watchExample,
};

const targetNames: Readonly<Record<string, string>> = { mcu: 'meter', package: 'agent' };

const sensorExamples = `## \`agent sensors scan hwmon\` (thermal, iio, w1, serial, modbus) proposes tables for the sensors it finds; \`agent sensors NAME --try\` reads one.
## Example. Readings become datapoints of an event:
#[[sensors]]
#event = "temperature"
#every = "10s"
#deadband = 0.2
#heartbeat = "10m"
#source = { kind = "hwmon", chip = "cpu_thermal", input = "temp1" }
## Or: source = { kind = "mqtt", url = "mqtts://127.0.0.1", ca_file = "/etc/thing-agent/broker-ca.pem", topic = "room/+/temperature" }
## Each topic has its own deadband and period. {topic} in event stands for it: event = "temperature/{topic}".

## Example. One source for several events and properties; one value for each minute:
#[[sensors]]
#every = "5s"
#source = { kind = "exec", command = ["/usr/lib/app/read-meter"] }
#outputs = [
#{ event = "power", pointer = "/power", aggregate_window = "1m", aggregate = "mean" },
#{ event = "alarm", pointer = "/alarm", priority = "urgent" },
#{ property = "meter_state", pointer = "/state" },
#]
`;

const propertyExample = `## Example. Only the last value of a property counts:
#[[properties]]
#id = "load"
#every = "5m"
#source = { kind = "system", metric = "load1" }
`;

const watchExample = `## Example. A property of the service that is written to a file, a program or a local topic whenever it changes:
#[[watch]]
#id = "limits"
#every = "1m"
#output = { kind = "command", command = ["/usr/lib/app/apply-limits"], user = "app", timeout = "1m" }
## Or: output = { kind = "file", path = "/run/limits.json" }
## Or: output = { kind = "mqtt", url = "mqtts://127.0.0.1", ca_file = "/etc/thing-agent/broker-ca.pem", username = "gw", password_file = "/etc/thing-agent/mqtt-password", topic = "limits" }
## Instead of username and password_file, client_certificate_file and client_key_file.
`;

/** A table with its keys, and the tables in it. */
function table(name: string, node: SchemaNode, isPresent: boolean): string {
  const rows = Object.entries(propertiesOf(node)).map(([key, child]) => ({ key, child, path: `${name}.${key}` }));
  const keys = rows.filter(({ child }) => !hasName(child));
  const isSet = (key: string) => isPresent && (requires(node, key) || alsoSet.has(`${name}.${key}`));
  const isOpen = alsoOpen.has(name) || keys.some(({ key }) => isSet(key));
  const head = `${said(node, !isPresent)}${isOpen ? '' : '#'}[${name}]\n`;
  const lines = keys.map(({ key, path, child }, index) => {
    const above = index === 0 ? undefined : keys[index - 1];
    return setting({ key, path, child, above, isSet: isSet(key) });
  });
  const inner = rows.filter(({ child }) => hasName(child));
  const tables = inner.map(({ key, path, child }) => table(path, child, isPresent && isThere(node, key)));
  return [`${head}${lines.join('')}`, ...tables].join('\n');
}

interface Row {
  readonly path: string;
  readonly child: SchemaNode;
}

interface Setting extends Row {
  readonly key: string;
  readonly above: Row | undefined;
  readonly isSet: boolean;
}

/** A setting without a description belongs to the setting above it. Throws if only one of them is an example. */
function setting({ key, path, child, above, isSet }: Setting): string {
  const { value, isExample, others } = shown(path, child);
  const text = said(child, isExample && !isSet);
  const isAlike = isSet || (above !== undefined && shown(above.path, above.child).isExample === isExample);
  if (text === '' && !isAlike && (isExample || above !== undefined)) throw new Error(`${path} lacks a description`);
  const more = others.map((other) => `## Or: ${assignment(key, other)}\n`);
  return `${text}${isSet ? '' : '#'}${assignment(key, value)}\n${more.join('')}`;
}

/** A complete table as a comment, with all its settings. Settings of other protocols than the shown one stay comments. */
function sketch(name: string, node: SchemaNode): string {
  const [protocol = ''] = boardProtocols;
  const lines = Object.entries(propertiesOf(node)).map(([key, child]) => {
    const text = `${describe(child)} ${membersOf(child)}`.trim();
    const mark = protocolsWith(key, protocol).length === 0 ? '' : '#';
    return `${text === '' ? '' : comment('## #', text)}## ${mark}${assignment(key, shown(`${name}.${key}`, child).value)}\n`;
  });
  return `${said(node, false)}## [${name}]\n${lines.join('')}`;
}

/** `image: Number of the image. confirm: …` */
function membersOf(node: SchemaNode): string {
  const members = Object.entries(propertiesOf(node)).filter(([, child]) => describe(child) !== '');
  return members.map(([key, child]) => `${key}: ${describe(child)}`).join(' ');
}

function bootloaderKinds(node: SchemaNode | undefined): string {
  const known = new Set<string>();
  const kinds = choicesOf(node).map((choice) => {
    const { kind: _, ...settings } = propertiesOf(choice);
    return `## kind = "${kindOf(choice)}":\n${settingsText(settings, known)}`;
  });
  return `## The kinds of bootloaders, and what their tables may have: defaults, or examples.\n${kinds.join('')}`;
}

/** The settings of a sensor that the examples do not explain. */
function furtherSettings(sensor: SchemaNode | undefined): string {
  const rows = Object.entries(propertiesOf(sensor)).filter(
    ([key, child]) => describe(child) !== '' || !new RegExp(`\\b${key}\\b`).test(sensorExamples),
  );
  const { outputs: _outputs, source: _source, ...settings } = Object.fromEntries(rows);
  return settingsText(settings);
}

/** A line such as `## scale = 0.001: The value is …` for each setting. A text that is known is not repeated. */
function settingsText(settings: Readonly<Record<string, SchemaNode>>, known = new Set<string>()): string {
  const texts = Object.entries(settings).map(([key, child]) => {
    const text = describe(child);
    const meaning = text === '' || known.has(text) ? '' : `: ${text}`;
    known.add(text);
    return comment('##', `${unbroken(assignment(key, child.examples?.[0] ?? shown(key, child).value))}${meaning}`);
  });
  return texts.join('');
}

interface Shown {
  readonly value: unknown;
  readonly isExample: boolean;
  /** Further examples. */
  readonly others: readonly unknown[];
}

/** The value shown in the file: the default, or an example. Throws if there is neither. */
function shown(path: string, node: SchemaNode): Shown {
  const { default: standard, examples: [example, ...others] = [] } = node;
  if (standard !== undefined && !isEmpty(standard)) return { value: standard, isExample: false, others };
  const sample = example ?? node.const ?? node.enum?.[0];
  if (sample !== undefined) return { value: sample, isExample: true, others };
  const [first] = choicesOf(node);
  const isChoice = first !== undefined;
  const members = Object.entries(propertiesOf(first ?? node))
    .filter(([key]) => !isChoice || requires(first, key))
    .map(([key, child]) => [key, shown(`${path}.${key}`, child)] as const);
  if (members.length === 0) throw new Error(`${path} has neither a default nor an example`);
  const value = Object.fromEntries(members.map(([key, member]) => [key, member.value]));
  return { value, isExample: members.every(([, member]) => member.isExample), others };
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

/** The comment above a setting or a table. */
function said(node: SchemaNode, isExample: boolean): string {
  const text = describe(node);
  return text === '' ? '' : comment('##', isExample ? `Example. ${text}` : text);
}

/** True if the table has its own header, since its keys have descriptions. Other tables are inline. */
function hasName(node: SchemaNode): boolean {
  return (
    node.examples === undefined && Object.values(propertiesOf(node)).some((child) => child.description !== undefined)
  );
}

/** True if a table exists without being written. */
function isThere(node: SchemaNode, key: string): boolean {
  return requires(node, key) || propertiesOf(node)[key]?.default !== undefined;
}

if (import.meta.main) {
  process.exitCode = await runTool('config', 'usage: npm run config\n', async () => {
    parseArgs({ options: {} });
    writeFileSync(configExamplePath, configExample());
    writeFileSync(configReferencePath, configReference());
  });
}
