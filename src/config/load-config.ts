import { createHash } from 'node:crypto';

import { protocolsWith } from '../mcu/settings.ts';
import type { AgentError } from '../system/errors.ts';
import { maskSecrets } from '../system/log/secrets.ts';
import type { Environment } from '../system/processes/environment.ts';
import { findExposedSecrets } from './check/references.ts';
import { resolveConfig } from './config.ts';
import type { Config } from './config.ts';
import { findWarnings } from './cross-check/warnings.ts';
import type { ConfigProblem } from './errors.ts';
import { writeToml } from './file/toml.ts';
import { readConfig, withLines } from './read-config.ts';
import type { ConfigFile } from './schema/schema.ts';

export interface LoadedConfig {
  readonly path: string;
  readonly config: Config;
  /** The digest of the file: `sha256:` and hex. */
  readonly digest: string;
  /** Settings that are allowed but weaken a guarantee, or have no effect. They are logged at each start. */
  readonly warnings: readonly ConfigProblem[];
  /** The reason why only the valid part of the file was loaded. */
  readonly problem?: AgentError;
}

/** Reads and checks the configuration file. Throws ConfigError with everything that is wrong. */
export async function loadConfig(path: string, environment: Environment): Promise<LoadedConfig> {
  const { text, file, overridden } = await readConfig(path, environment);
  const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`;
  return {
    path,
    config: resolveConfig(file),
    digest,
    warnings: withLines([...overridden, ...findWarnings(file), ...(await findExposedSecrets(file, path))], text),
  };
}

/** The settings in effect in the words of the file, with defaults and with masked secrets. Throws ConfigError. */
export async function effectiveConfig(
  path: string,
  environment: Environment,
): Promise<Readonly<Record<string, unknown>>> {
  const { file } = await readConfig(path, environment);
  const targets = Object.fromEntries(Object.entries(file.targets).map(([name, target]) => [name, ownSettings(target)]));
  return Object.fromEntries(Object.entries({ ...file, targets }).map(([key, value]) => [key, maskSecrets(value, key)]));
}

/** Returns the settings of a target without the defaults of protocols that a board does not have. */
function ownSettings(target: ConfigFile['targets'][string]): object {
  if (target.kind !== 'mcu') return target;
  const own = Object.entries(target).filter(([key]) => protocolsWith(key, target.protocol).length === 0);
  return Object.fromEntries(own);
}

/** The settings in effect as TOML. Throws ConfigError. */
export async function showConfig(path: string, environment: Environment): Promise<string> {
  return writeToml(await effectiveConfig(path, environment));
}
