import { createHash } from 'node:crypto';

import type { Environment } from '../system/processes/environment.ts';
import { findOpenSecrets } from './check/open-secrets.ts';
import type { Config } from './config.ts';
import { findWarnings } from './cross-check.ts';
import type { ConfigProblem } from './errors.ts';
import { readConfig, withLines } from './read-config.ts';
import { resolveConfig } from './resolve.ts';

export interface LoadedConfig {
  readonly path: string;
  readonly config: Config;
  /** `sha256:` and hex, of the file. */
  readonly digest: string;
  /** What is allowed and weakens a promise, or has no effect; to be said each time. */
  readonly warnings: readonly ConfigProblem[];
}

/** Reads and checks the configuration file. Throws ConfigError, which tells everything that is wrong at once. */
export async function loadConfig(path: string, environment: Environment): Promise<LoadedConfig> {
  const { text, file, overruled } = await readConfig(path, environment);
  const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`;
  return {
    path,
    config: resolveConfig(file),
    digest,
    warnings: withLines([...overruled, ...findWarnings(file), ...(await findOpenSecrets(file, path))], text),
  };
}
