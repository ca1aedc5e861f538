import { readFileSync } from 'node:fs';

import { describe, expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { resolveConfig } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';
import { configExample, configExamplePath } from '../../../../systemd/pages/config-example.ts';
import { configReference, configReferencePath } from '../../../../systemd/pages/config-reference.ts';

const example = readFileSync(configExamplePath, 'utf8');

function resolve(text: string): Config {
  return resolveConfig(parseConfig('config.toml', text));
}

test('docs/configuration.md is current (npm run config writes it)', () => {
  expect(readFileSync(configReferencePath, 'utf8')).toBe(configReference());
});

/** The text with its commented settings in force: the defaults only, or the examples too. */
function uncomment(text: string, withExamples: boolean): string {
  return text
    .split('\n\n')
    .map((table) => uncommentTable(table.split('\n'), withExamples))
    .join('\n\n');
}

/** A comment holds up to the next one; one above the name of a table for the whole table, too. */
function uncommentTable(lines: readonly string[], withExamples: boolean): string {
  let [isExample, isExampleTable] = [false, false];
  const there = lines.map((line, index) => {
    const goesOn = lines[index - 1]?.startsWith('##') === true;
    if (line.startsWith('##')) isExample = line.startsWith('## Example') || (goesOn && isExample);
    if (line.startsWith('#[')) isExampleTable = isExample;
    const setting = /^#(?=[^# ])/.test(line) && (withExamples || !(isExample || isExampleTable));
    return setting ? line.slice(1) : line;
  });
  return there.join('\n');
}

/** Settings of the file in another form. */
const others = [...example.matchAll(/^## Or: (?<key>\w+)(?<value> = .*)$/gm)].map(
  ({ groups }) => [groups?.['key'] ?? '', groups?.['value'] ?? ''] as const,
);

describe('the configuration that is installed', () => {
  // Regression: "## Example." before each line of a sentence.
  test('marks an example only once', () => {
    expect(example.match(/^## Example.*\n## Example.*/gm)).toBeNull();
  });

  test('is what the schema makes it (npm run config writes it)', () => {
    expect(example).toBe(configExample());
  });

  test('is plain ASCII, which every terminal and editor shows', () => {
    expect(example.match(/[^\n -~]/g)).toBeNull();
  });

  test('is good as it is', () => {
    expect(resolve(example).targets).toHaveLength(1);
  });

  test('shows the defaults as they are', () => {
    const text = uncomment(example, false);
    expect(text).not.toBe(example);
    expect(resolve(text)).toEqual(resolve(example));
  });

  test('is good with every example in force', () => {
    const config = resolve(uncomment(example, true));
    expect(config.update.window).toBeDefined();
    expect(config.device.serialNumber).toBe('GW-0001');
    expect(config.report.outcome).toBe('update_outcome');
    expect(config.service.messaging?.topics.wake).toBe('gateways/a1b2/wake');
    expect(config.measurements.map(({ outputs }) => outputs.length)).toEqual([1, 3, 1]);
    expect(config.watches.map(({ id }) => id)).toEqual(['limits']);
    expect(config.telemetry.report.figures).toBe('agent');
  });

  test.each([
    ['meter', 'mcu'],
    ['agent', 'package'],
  ])('has a whole target %s to be copied: it is good without the "## " of its lines', (name, kind) => {
    const block = example.split('\n\n').find((part) => part.includes(`\n## [targets.${name}]\n`)) ?? '';
    const [, settings = ''] = block.split(/(?=^## \[)/m);
    const [before = ''] = example.split(/^(?=## Two slots)/m);
    const { targets } = resolve(`${before}\n${settings.replaceAll(/^## /gm, '')}`);
    expect(targets).toMatchObject([{ name, kind }]);
  });

  test.each(others)('is good with the other form of %s: %s', (key, value) => {
    const other = uncomment(example, true).replace(new RegExp(`^${key} = .*`, 'm'), () => `${key}${value}`);
    expect(other).not.toBe(uncomment(example, true));
    expect(resolve(other).targets).toHaveLength(1);
  });

  test('has other forms', () => {
    expect(others.map(([key]) => key)).toEqual(['max_rate', 'keys', 'source', 'output', 'output']);
  });
});
