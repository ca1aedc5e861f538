import { maskSecrets } from '../system/log/secrets.ts';
import type { Environment } from '../system/processes/environment.ts';
import { writeToml } from './file/toml.ts';
import { readConfig } from './read-config.ts';

/** The settings in effect in the words of the file, with defaults and with masked secrets. Throws ConfigError. */
export async function effectiveConfig(
  path: string,
  environment: Environment,
): Promise<Readonly<Record<string, unknown>>> {
  const { file } = await readConfig(path, environment);
  return Object.fromEntries(Object.entries(file).map(([key, value]) => [key, maskSecrets(value, key)]));
}

/** The settings in effect as TOML. Throws ConfigError. */
export async function showConfig(path: string, environment: Environment): Promise<string> {
  return writeToml(await effectiveConfig(path, environment));
}
