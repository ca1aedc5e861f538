import type { Version } from '../../../src/service/contract.ts';
import type { Probe } from './probe.ts';

export type Verdict = 'pass' | 'warning' | 'failure';

/** A rule found something. */
export class Finding extends Error {
  override readonly name = 'Finding';
  readonly verdict: 'warning' | 'failure';

  constructor(verdict: 'warning' | 'failure', why: string) {
    super(why);
    this.verdict = verdict;
  }
}

/** A gateway does not work with this service. */
export function fail(why: string): never {
  throw new Finding('failure', why);
}

/** A gateway works with this service, but less well; or the rule could not be tested. */
export function warn(why: string): never {
  throw new Finding('warning', why);
}

/** Returns a fact of an earlier rule; warns if that rule did not pass. */
export function need<T>(value: T | undefined, rule: string): T {
  return value ?? warn(`not tested: ${rule} did not pass`);
}

export interface Thing {
  readonly thingId: string;
  readonly apiKey: string;
}

export interface TextFacts {
  readonly versionId: string;
  readonly contentLength: string | null;
  readonly etag: string | null;
  readonly totalBytes: number;
  readonly tailOffset: number;
  /** The bytes from `tailOffset` on. */
  readonly tail: Buffer;
}

/** The input of a run, and the facts that its rules collect. */
export interface Run {
  readonly probe: Probe;
  readonly serialNumber: string;
  readonly propertyId: string;
  readonly eventId: string;
  /** The version whose firmware is read; omitted: the target version. */
  readonly versionId: string | undefined;
  /** Keys of earlier activations. */
  readonly oldKeys: string[];
  /** Takes a figure to show with the result of the rule. */
  readonly note: (text: string) => void;
  thing?: Thing;
  current?: Version;
  target?: Version;
  text?: TextFacts;
  canReadProperty?: boolean;
}

export interface Rule<R = Run> {
  readonly id: string;
  readonly title: string;
  /** `interface`: the interface states it; `agent`: the interface is silent, and the agent needs or accepts it. */
  readonly source: 'interface' | 'agent';
  /** Throws a Finding if the service does not keep the rule. */
  readonly check: (run: R) => Promise<void>;
}
