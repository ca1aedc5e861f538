import type { AgentError } from '../system/errors.ts';
import type { Environment } from '../system/processes/environment.ts';
import { parsedOnce } from '../system/settings/settings.ts';
import { validSubset } from './check/valid-subset.ts';
import { resolveConfig } from './config.ts';
import type { LoadedConfig } from './load-config.ts';
import { applyEnvironment, examineConfig, readConfigText } from './read-config.ts';
import { configSchema } from './schema/schema.ts';

/** Stand for required settings that the file lacks. Nothing is called or installed with this configuration. */
const required = { service: { url: 'https://unknown.invalid' }, device: { device_type: 'unknown' } };

/** Loads the valid part of an invalid file, to show the state of a gateway. Throws ConfigError if it is not TOML. */
export async function loadValidPart(
  path: string,
  environment: Environment,
  problem: AgentError,
): Promise<LoadedConfig> {
  const { input } = examineConfig(path, await readConfigText(path));
  const { tables } = validSubset(input);
  const known = Object.entries(tables).filter(([, table]) => table !== undefined);
  const file = configSchema.parse({ ...required, ...Object.fromEntries(known) }, parsedOnce);
  return { path, config: resolveConfig(applyEnvironment(file, environment).file), digest: '', warnings: [], problem };
}
