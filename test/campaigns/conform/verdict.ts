import type { Version } from '../../../src/service/contract.ts';
import type { Probe } from './probe.ts';

export type Verdict = 'pass' | 'warning' | 'failure';

/** A rule found something. */
export class Finding extends Error {
  override readonly name = 'Finding';
  readonly verdict: 'warning' | 'failure';
  /** The replies that the agent accepts, if the interface does not show them. */
  readonly accepted: string | undefined;

  constructor(verdict: 'warning' | 'failure', why: string, accepted?: string) {
    super(why);
    this.verdict = verdict;
    this.accepted = accepted;
  }
}

/** A gateway does not work with this service. */
export function fail(why: string, accepted?: string): never {
  throw new Finding('failure', why, accepted);
}

/** A gateway works with this service, but less well; or the rule could not be tested. */
export function warn(why: string, accepted?: string): never {
  throw new Finding('warning', why, accepted);
}

/** Returns a fact of an earlier rule; warns if that rule did not pass. */
export function need<T>(value: T | undefined, rule: string): T {
  return value ?? warn(`not tested: ${rule} did not pass`);
}

export interface Thing {
  readonly thingId: string;
  readonly apiKey: string;
}

/** The kinds of property values that a gateway sets. */
export type ValueKind = 'json' | 'number' | 'text';

/** Makes a call with a key, or without one, and returns its status. */
export type KeyedCall = (key: string | undefined) => Promise<number>;

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
  /** Properties for one kind of value each. */
  readonly propertyIds: Readonly<Partial<Record<ValueKind, string | undefined>>>;
  readonly eventId: string;
  /** The version to switch to and back; omitted: not tested. */
  readonly switchToId: string | undefined;
  /** The version whose firmware is read; omitted: the target version. */
  readonly versionId: string | undefined;
  /** Keys of earlier activations. */
  readonly oldKeys: string[];
  /** The calls that succeeded with the valid key, by name. */
  readonly keyedCalls: Map<string, KeyedCall>;
  /** Takes a figure to show with the result of the rule. */
  readonly note: (text: string) => void;
  thing?: Thing;
  current?: Version;
  target?: Version;
  text?: TextFacts;
}

export interface Rule<R = Run> {
  readonly id: string;
  readonly title: string;
  /** `interface`: the interface states it; `agent`: the interface is silent, and the agent needs or accepts it. */
  readonly source: 'interface' | 'agent';
  /** Throws a Finding if the service does not keep the rule. */
  readonly check: (run: R) => Promise<void>;
}
