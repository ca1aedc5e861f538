import type { AgentOperations } from '../../control/operations.ts';
import type { AgentError } from '../../system/errors.ts';
import type { CliContext, Support } from '../context.ts';

/** Of what a report is made. */
export interface Sources {
  /** The daemon, or this process beside it; or why neither can be had. */
  readonly agent: AgentOperations | AgentError;
  readonly support: Support;
  readonly context: CliContext;
}

/** One file of a report. */
export interface PartFile {
  readonly file: string;
  /** A text as it is, anything else as JSON. */
  readonly content: unknown;
  /** Of a text that is too long: its end is worth more than its begin. */
  readonly keep?: 'end';
}

/** What a supporter asks for, by one word. Throws where it cannot be had. */
export interface Part {
  readonly name: PartName;
  readonly timeoutMs: number;
  readonly gather: (sources: Sources, signal: AbortSignal) => Promise<readonly PartFile[]>;
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
