import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';
import { resolveConfig } from '../../../../src/config/resolve.ts';

const example = readFileSync(join(import.meta.dirname, '../../../../systemd/config.toml'), 'utf8');

function resolve(text: string): Config {
  return resolveConfig(parseConfig('config.toml', text));
}

/** The text with its commented settings in force: the defaults only, or the examples too. */
function uncomment(text: string, withExamples: boolean): string {
  let isExample = false;
  return text
    .split('\n')
    .map((line, index, lines) => {
      const goesOn = lines[index - 1]?.startsWith('##') === true;
      if (line.startsWith('##')) isExample = line.startsWith('## Example') || (goesOn && isExample);
      if (line === '') isExample = false;
      const setting = /^#(?=[^# ])/.test(line) && (withExamples || !isExample);
      return setting ? line.slice(1) : line;
    })
    .join('\n');
}

describe('the configuration that is installed', () => {
  // Seen: "## Example." before each line of a sentence.
  test('says once that something is an example', () => {
    expect(example.match(/^## Example.*\n## Example.*/gm)).toBeNull();
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
    expect(config.service.messaging?.wakeTopic).toBe('gateways/a1b2/wake');
    expect(config.measurements.map(({ outputs }) => outputs.length)).toEqual([1, 3, 1]);
    expect(config.watches.map(({ id }) => id)).toEqual(['limits']);
    expect(config.telemetry.report.figures).toBe('agent');
  });
});
