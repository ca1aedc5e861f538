import type { resolveConfig, TargetSettings } from './resolve.ts';

/** The configuration as the program uses it: every default applied, durations in milliseconds. Each room describes its own. */
export type Config = ReturnType<typeof resolveConfig>;

export type { TargetSettings };
