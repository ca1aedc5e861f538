import type { Environment } from '../system/processes/environment.ts';
import type { Config } from './config.ts';
import { findWarnings } from './cross-check.ts';
import type { ConfigProblem } from './errors.ts';
import { readConfig, withLines } from './read-config.ts';
import { resolveConfig } from './resolve.ts';

export interface LoadedConfig {
  readonly path: string;
  readonly config: Config;
  /** What is allowed and weakens a promise, or has no effect; to be said each time. */
  readonly warnings: readonly ConfigProblem[];
}

/** Reads and checks the configuration file. Throws ConfigError, which tells everything that is wrong at once. */
export async function loadConfig(path: string, environment: Environment): Promise<LoadedConfig> {
  const { text, file, overruled } = await readConfig(path, environment);
  return { path, config: resolveConfig(file), warnings: withLines([...overruled, ...findWarnings(file)], text) };
}
