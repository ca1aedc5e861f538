import type { AgentOperations } from '../../control/operations.ts';
import type { AgentError } from '../../system/errors.ts';
import type { CliContext, Support } from '../context.ts';

/** Everything that the parts of a report are made of. */
export interface Sources {
  /** The daemon, or an agent in this process; if neither can be had, the reason. */
  readonly agent: AgentOperations | AgentError;
  readonly support: Support;
  readonly context: CliContext;
}

/** One file of a report. */
export interface SectionFile {
  readonly file: string;
  /** A string is written as it is, anything else as JSON. */
  readonly content: unknown;
  /** `end`: a text that is too long keeps its end instead of its beginning. */
  readonly keep?: 'end';
}

/** One thing that a supporter needs, named by one word. `gather` throws if it cannot be had. */
export interface Section {
  readonly name: PartName;
  readonly timeoutMs: number;
  readonly gather: (sources: Sources, signal: AbortSignal) => Promise<readonly SectionFile[]>;
}

export const partNames = [
  'status',
  'doctor',
  'configuration',
  'config-problems',
  'journal',
  'history',
  'security',
  'sensors',
  'log',
  'unit',
  'versions',
  'mounts',
  'boot-environment',
  'kernel',
] as const;
export type PartName = (typeof partNames)[number];
