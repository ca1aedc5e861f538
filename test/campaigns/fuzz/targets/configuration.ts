import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import fc from 'fast-check';

import { resolveConfig } from '../../../../src/config/config.ts';
import { idleSettings } from '../../../../src/config/cross-check/idle-settings.ts';
import { findWarnings } from '../../../../src/config/cross-check/warnings.ts';
import { ConfigError } from '../../../../src/config/errors.ts';
import { parseToml, writeToml } from '../../../../src/config/file/toml.ts';
import { examineConfig, parseConfig, withLines } from '../../../../src/config/read-config.ts';
import { configJsonSchema } from '../../../../src/config/schema/json-schema.ts';
import { writtenToml } from '../../../unit-and-integration/config/toml-writer.ts';
import { changedJson, hostile, jsonChanges } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { FuzzTarget } from '../target.ts';

const example = readFileSync(join(import.meta.dirname, '../../../../systemd/config.toml'), 'utf8');
/** With everything that the example has in comments. */
const full = example.replaceAll(/^# ?(?=[a-z_]+ = |\[)/gm, '');

/** A configuration file: good, or an error that points at a line of it. */
export const configuration: FuzzTarget = {
  name: 'configuration',
  open: async () => {
    void configJsonSchema();
    const value = parseToml(example);
    const retyped = jsonChanges.map((changes) => written(changedJson(value, changes)));
    const cases = fc.oneof(
      hostile(fc.constantFrom(example, full).map((text) => Buffer.from(text))).map((bytes) => bytes.toString('utf8')),
      writtenToml.map(({ text }) => text),
      writtenToml.map(({ text }) => `${example}\n${text}`),
      retyped,
    );
    return openTarget(cases, requireAnswer);
  },
};

async function requireAnswer(text: string): Promise<void> {
  const outcome = await outcomeOf(() => {
    const file = parseConfig('config.toml', text);
    withLines([...findWarnings(file), ...idleSettings(file, examineConfig('config.toml', text).input)], text);
    return resolveConfig(file);
  });
  if (!('error' in outcome)) return;
  if (!(outcome.error instanceof ConfigError)) throw outcome.error;
  const lines = text.split('\n').length;
  for (const { line } of outcome.error.problems) {
    if (line !== undefined && (line < 1 || line > lines)) throw new Error(`line ${line} of ${lines}`);
  }
}

/** TOML has no null; such a value is left out of this test. */
function written(value: unknown): string {
  try {
    return writeToml(value as Record<string, unknown>);
  } catch (error) {
    if (error instanceof TypeError) return example;
    throw error;
  }
}
