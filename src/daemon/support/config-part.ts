import { writeToml } from '../../config/file/toml.ts';
import { effectiveConfig } from '../../config/load-config.ts';
import { MASK } from '../../system/log/secrets.ts';
import type { Environment } from '../../system/processes/environment.ts';

/**
 * Guarantee `secrecy`: returns the effective configuration as TOML for readers other than its operator. A program is
 * reduced to its name, since its arguments may be anything, and the keys that a board's menu expects are left out.
 * Throws ConfigError.
 */
export async function redactedConfig(path: string, environment: Environment): Promise<string> {
  const effective = await effectiveConfig(path, environment);
  return writeToml(Object.fromEntries(Object.entries(effective).map(([key, value]) => [key, redacted(key, value)])));
}

const typedKeys: ReadonlySet<string> = new Set(['upload_keys', 'start_keys']);

function redacted(key: string, value: unknown): unknown {
  if (typedKeys.has(key)) return MASK;
  if (Array.isArray(value)) {
    const isCommand = /command/.test(key) && value.every((word) => typeof word === 'string');
    return isCommand ? value.map((word, index) => (index === 0 ? word : MASK)) : value.map((one) => redacted(key, one));
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, redacted(name, one)]));
}
