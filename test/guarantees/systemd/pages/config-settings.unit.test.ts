import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { configJsonSchema } from '../../../../src/config/schema/json-schema.ts';
import { protocols } from '../../../../src/mcu/protocols/protocols.ts';
import { bootloaders } from '../../../../src/slots/bootloaders/bootloaders.ts';
import { namesOf } from '../../../../src/system/settings/described.ts';
import { sources } from '../../../../src/telemetry/sources/sources.ts';
import { configExamplePath } from '../../../../systemd/pages/config-example.ts';

const example = readFileSync(configExamplePath, 'utf8');

/** The part of the file for each top-level table: its active and commented lines, with their descriptions. */
const parts = new Map<string, string>();
let now = '';
for (const paragraph of example.split('\n\n')) {
  now = /^(?:#|## )?\[+(?<name>[a-z]+)/m.exec(paragraph)?.groups?.['name'] ?? now;
  parts.set(now, `${parts.get(now) ?? ''}\n${paragraph}`);
}

/** The paths of all settings in a JSON Schema; NAME stands for a name that an integrator chooses. */
function* pathsIn(node: unknown, at: readonly string[] = []): Generator<readonly string[], void, undefined> {
  for (const [word, child] of entriesOf(node)) {
    if (word === 'properties') yield* settingsIn(child, at);
    else if (word === 'additionalProperties') yield* pathsIn(child, [...at, 'NAME']);
    else if (['items', 'anyOf', 'oneOf'].includes(word) || Array.isArray(node)) yield* pathsIn(child, at);
  }
}

function* settingsIn(properties: unknown, at: readonly string[]): Generator<readonly string[], void, undefined> {
  for (const [key, node] of entriesOf(properties)) {
    const path = [...at, key];
    yield path;
    yield* pathsIn(node, path);
  }
}

function entriesOf(node: unknown): readonly (readonly [string, unknown])[] {
  return typeof node === 'object' && node !== null ? Object.entries(node) : [];
}

/** Settings of one kind of source are in `agent config schema`, to which the file refers. */
const ofSource = /^(?:sensors|properties)\.source\./;

test('config.toml has each setting of the schema, in force or as a comment', () => {
  expect(example).toContain('`agent config schema` has their settings');
  expect(example).toContain('Further settings of [[sensors]], their outputs and [[properties]]:');
  const paths = [...pathsIn(configJsonSchema())];
  expect(paths.length).toBeGreaterThan(250);
  const missing = paths.filter((path) => {
    const [table = '', key = ''] = [path[0], path.at(-1)];
    const shared = table === 'properties' ? parts.get('sensors') : '';
    return !new RegExp(String.raw`\b${key}\b`).test(`${parts.get(table) ?? ''}${shared ?? ''}`);
  });
  expect(missing.map((path) => path.join('.')).filter((path) => !ofSource.test(path))).toEqual([]);
});

test.each([
  ['kind of source', namesOf(sources), parts.get('sensors')],
  ['bootloader', namesOf(bootloaders), parts.get('targets')],
  ['protocol for boards', namesOf(protocols), parts.get('targets')],
])('config.toml names each %s', (_what, names, part = '') => {
  expect(names.filter((name) => !part.includes(`"${name}"`))).toEqual([]);
});
