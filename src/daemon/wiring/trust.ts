import type { Config } from '../../config/config.ts';
import type { OperationOutcome } from '../../control/events.ts';
import type { TrustProblem } from '../../control/gateway-state.ts';
import { keyStateOf, loadTrustedKeys } from '../../firmware/artifact/trust.ts';
import type { TrustedKey } from '../../firmware/artifact/trust.ts';
import type { KnownTime } from '../../firmware/trust/key-validity.ts';
import { loadKeyring } from '../../firmware/trust/keyring.ts';
import type { Keyring } from '../../firmware/trust/keyring.ts';
import { fromFile, parseTrustListFile } from '../../firmware/trust/trust-list.ts';
import { TrustStore } from '../../firmware/trust/trust-store.ts';
import type { ListOrigin } from '../../firmware/trust/trust-store.ts';
import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import { StorageError } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Clock } from '../../system/time/clock.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import { probeSynchronization } from '../../telemetry/clock/clock.ts';
import type { ProbeSynchronization } from '../../telemetry/clock/clock.ts';
import type { StagedBefore } from '../../update/policy/install-request.ts';
import { stateFs } from '../doctor/state-directory.ts';
import { diffTrustList } from '../security/applied-list.ts';
import type { AppliedList } from '../security/applied-list.ts';
import type { Runtime } from './wiring.ts';

export interface TrustDeps {
  readonly config: {
    readonly trust: Pick<Config['trust'], 'keys' | 'allowUnsigned'>;
    readonly paths: Pick<Config['paths'], 'state'>;
  };
  /** The keys of the configuration. Default: from its files. */
  readonly configuredKeys?: (() => Promise<readonly TrustedKey[]>) | undefined;
  /** File access to the state directory. */
  readonly fs?: DurableFs;
  readonly clock: Clock;
  /** Returns whether a time server has set the machine's clock. */
  readonly probe: ProbeSynchronization;
}

/** A concern as a sentence; `trouble` is its word for monitoring. */
export interface TrustWarning {
  readonly text: string;
  readonly trouble?: TrustProblem | undefined;
}

/** The installed version, and those that a rollback restores, the first one first. A factory slot has no digest. */
interface WhatRan {
  readonly installed?: Partial<StagedBefore> | undefined;
  readonly earlier: readonly Partial<StagedBefore>[];
}

/** The trusted keys and the known limits of the time. */
export class Trust {
  readonly #deps: TrustDeps;
  readonly #store: TrustStore;
  #news: ListNews | undefined;
  #heard: { readonly atMs: number; readonly monotonicMs: number } | undefined;

  constructor(deps: TrustDeps) {
    this.#deps = deps;
    this.#store = new TrustStore(deps.config.paths.state, deps.fs);
  }

  /**
   * Notes the time that the service's clock shows. It is forgotten with this process, so that one wrong answer cannot
   * end a key for ever.
   */
  onServiceTime(atMs: number): void {
    if (isPlausible(atMs)) this.#heard = { atMs, monotonicMs: this.#deps.clock.monotonicMs() };
  }

  async keyring(signal: AbortSignal): Promise<Keyring> {
    const { config, configuredKeys } = this.#deps;
    return loadKeyring({
      configured: configuredKeys ?? (async () => loadTrustedKeys(config.trust.keys)),
      store: this.#store,
      knownTime: async () => this.#knownTime(signal),
    });
  }

  /** Returns the names of the trusted keys by fingerprint; none if the keys cannot be read. */
  async keyNames(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const found = await valueOrError(this.keyring(signal));
    return new Map(found instanceof AgentError ? [] : found.keys.map(({ fingerprint, name }) => [fingerprint, name]));
  }

  /**
   * Applies a list. A repeated one is reported like a new one: the process that applied it may have ended before its
   * report. `known` are the keys that were trusted before.
   */
  async takeList(bytes: Uint8Array, origin: ListOrigin, known: readonly TrustedKey[]): Promise<AppliedList> {
    const file = parseTrustListFile(bytes);
    const list = fromFile(file);
    const before = await this.#store.lastKnown().catch(whereNotKnown);
    const isNew = (await this.#store.take(file, origin)) === 'taken';
    if (isNew || this.#news?.number !== list.number) this.#news = newsOf({ list, before }, known);
    return { list, before: isNew ? before : undefined };
  }

  /**
   * Judges a list without taking it, and returns what it would change. Throws `trust-list-old` and
   * `trust-list-malformed`.
   */
  async evaluateList(bytes: Uint8Array, origin: ListOrigin): Promise<AppliedList> {
    const file = parseTrustListFile(bytes);
    await this.#store.evaluate(file, origin);
    return { list: fromFile(file), before: await this.#store.read().catch(whereNotKnown) };
  }

  /** Returns the changes of the list that was applied since the last call, if any. */
  collectNews(): ListNews | undefined {
    const news = this.#news;
    this.#news = undefined;
    return news;
  }

  /**
   * Returns the number of the list in effect. Undefined if there is none, or if it is unreadable, so that any list may
   * replace it.
   */
  async listInEffect(): Promise<number | undefined> {
    return (await this.#store.read().catch(whereNotKnown))?.number;
  }

  /**
   * Guarantee `revocation`: returns why the list forbids a previously installed release. Undefined if it does not, or
   * is unreadable. Only a signed list is a reason, not the configuration, which an image may replace, and not the time.
   * So a manual rollback depends on no other file than the list.
   */
  async revoked({ digest = '', signedBy = '' }: Partial<StagedBefore>): Promise<string | undefined> {
    const list = await this.#store.lastKnown().catch(whereNotKnown);
    if (list?.revoked.releases.includes(digest) === true) return `was revoked by list ${list.number}`;
    if (list?.revoked.keys.includes(signedBy) === true)
      return `is signed by ${signedBy}, revoked by list ${list.number}`;
    return undefined;
  }

  /** Returns why a previously accepted release would now be rejected, worded to follow its name. */
  async distrusted({ digest, signedBy }: StagedBefore, signal: AbortSignal): Promise<string | undefined> {
    const keyring = await valueOrError(this.keyring(signal));
    if (keyring instanceof AgentError) return `cannot be verified: ${keyring.message}`;
    if (keyring.damage !== undefined) return `cannot be verified: ${keyring.damage.message}`;
    if (keyring.revoked?.releases.has(digest) === true) return 'was revoked';
    if (signedBy === undefined) {
      const { allowUnsigned } = this.#deps.config.trust;
      return allowUnsigned ? undefined : 'is unsigned, which [trust] allow_unsigned no longer permits';
    }
    const key = keyring.keys.find(({ fingerprint, name }) => fingerprint === signedBy || name === signedBy);
    if (key === undefined) return `is signed by ${signedBy}, which is no longer a trusted key`;
    return isUsable(key, keyring) ? undefined : `is signed by ${describeKey(key, keyring)}`;
  }

  /** Returns warnings for the operator, one sentence each. */
  async concerns({ installed, earlier: [previous] }: WhatRan, signal: AbortSignal): Promise<readonly TrustWarning[]> {
    try {
      const keyring = await this.keyring(signal);
      const { damage } = keyring;
      const found: TrustWarning[] = [];
      if (damage !== undefined) found.push({ text: damage.message, trouble: 'trust-list-damaged' });
      const usable = keyring.keys.filter((key) => isUsable(key, keyring));
      if (usable.length === 0) found.push(...this.#withoutKey(keyring.keys.length));
      const runs = installed && (await this.revoked(installed));
      if (runs !== undefined) found.push({ text: `the release that is installed ${runs}`, trouble: 'release-revoked' });
      const before = previous && (await this.revoked(previous));
      if (before !== undefined) found.push({ text: `the previous release, the target of agent rollback, ${before}` });
      return found;
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      const text = describeError(error);
      const isOfState = error instanceof StorageError; // the state directory has a concern of its own
      return [{ text, trouble: isOfState ? undefined : 'no-trusted-key' }];
    }
  }

  #withoutKey(configured: number): readonly TrustWarning[] {
    const { allowUnsigned } = this.#deps.config.trust;
    const text = configured === 0 ? NO_KEY : NO_KEY_LEFT;
    if (!allowUnsigned) return [{ text, trouble: 'no-trusted-key' }];
    return configured === 0 ? [] : [{ text }];
  }

  /** The time by the service's clock, if the service responded since this process began. */
  get serviceTimeMs(): number | undefined {
    return this.#heard && this.#heard.atMs + this.#deps.clock.monotonicMs() - this.#heard.monotonicMs;
  }

  /**
   * True if the clock is set. Without a time server it is believed; with a time server that has not set it yet, only if it agrees
   * with the service, since an operator may have set it.
   */
  async isClockSet(signal: AbortSignal): Promise<boolean> {
    const { clock, probe } = this.#deps;
    const nowMs = clock.nowMs();
    return isPlausible(nowMs) && ((await probe(signal)) !== 'not-yet' || this.agreesWithService(nowMs) === true);
  }

  /** Omitted if the service did not respond since this process started. */
  agreesWithService(nowMs: number): boolean | undefined {
    const { serviceTimeMs } = this;
    return serviceTimeMs === undefined ? undefined : Math.abs(nowMs - serviceTimeMs) < MOST_APART_MS;
  }

  async #knownTime(signal: AbortSignal): Promise<KnownTime> {
    const { clock, probe } = this.#deps;
    const atLeastMs = this.serviceTimeMs;
    const nowMs = clock.nowMs();
    const isSet = isPlausible(nowMs) && (await probe(signal)) === 'synchronized';
    return { atLeastMs, nowMs: isSet ? nowMs : undefined };
  }
}

function whereNotKnown(error: unknown): undefined {
  if (!(error instanceof AgentError)) throw error;
}

type Installed = Extract<OperationOutcome, { readonly kind: 'installed' }>;
type ListNews = NonNullable<Installed['trustList']>;

function newsOf({ list, before }: AppliedList, known: readonly TrustedKey[]): ListNews {
  const { revokedKeys, unknownKeys, revokedReleases, added } = diffTrustList({ list, before, known });
  return {
    number: list.number,
    keys: list.keys.filter(({ fingerprint }) => added.includes(fingerprint)).map(({ name }) => name),
    revokedKeys: revokedKeys.length,
    unknownKeys: unknownKeys.length,
    revokedReleases: revokedReleases.length,
  };
}

export function wireTrust(config: Config, { clock, boot }: Runtime): Trust {
  return new Trust({ config, fs: stateFs(config), clock, probe: probeSynchronization(boot?.timesync) });
}

/** Allows for the way of the request, and for whole seconds in the header. */
const MOST_APART_MS = 5 * 60_000;

export const NO_KEY = 'no key is trusted, so no release can be installed';
export const NO_KEY_LEFT =
  'no trusted key is left (revoked, or not of this time): no release can be installed until [trust] keys has a new public key';

export function isUsable(key: TrustedKey, keyring: Keyring): boolean {
  const state = keyStateOf(key, keyring);
  return state === 'valid' || state === 'unknown';
}

const states = {
  valid: '',
  unknown: ', whose validity is unknown: the clock was not set',
  'not-yet': ', not valid yet',
  expired: ', expired',
  revoked: ', revoked',
} as const;

/** Returns `release.pem sha256:…`, for comparison by an operator. */
export function describeKey(key: TrustedKey, keyring: Keyring): string {
  return `${key.name} ${key.fingerprint}${states[keyStateOf(key, keyring)]}`;
}
