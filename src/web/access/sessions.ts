import { randomBytes, timingSafeEqual } from 'node:crypto';

import type { Message } from '../../control/presentation/rows/row.ts';
import type { DoctorFinding } from '../../control/reports.ts';
import type { Clock } from '../../system/time/clock.ts';

/** The result of `agent doctor`, and when it was ready. */
export interface Diagnostics {
  readonly at: string;
  readonly findings: readonly DoctorFinding[];
}

/** The session of an operator. */
export interface Session {
  /** The token that our forms contain, and that another page cannot know. */
  readonly token: string;
  /** The notice on the next page. */
  said: Message | undefined;
  diagnostics?: Diagnostics;
}

interface KeptSession extends Session {
  readonly sinceMs: number;
  usedMs: number;
}

const MAX_SESSIONS = 64;
const IDLE_MS = 60 * 60_000;
const LONGEST_MS = 12 * 60 * 60_000;

/**
 * Sessions, kept in memory: they end with the daemon. A new session may replace the least recently used session.
 */
export class Sessions {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #kept = new Map<string, KeptSession>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Starts a session and returns its unguessable name. */
  begin(): string {
    const name = random();
    this.#begin(name);
    return name;
  }

  find(name: string | undefined): Session | undefined {
    this.#endOld();
    const found = name === undefined ? undefined : this.#kept.get(name);
    return name === undefined || found === undefined ? undefined : this.#use(name, found);
  }

  /** The session of a client certificate, named by its fingerprint: TLS has verified the owner. */
  ofCertificate(fingerprint: string): Session {
    const name = `certificate ${fingerprint}`;
    return this.find(name) ?? this.#begin(name);
  }

  /** True if the session has not ended. Does not prolong it. */
  has(session: Session): boolean {
    this.#endOld();
    return this.#kept.values().some((kept) => kept === session);
  }

  end(name: string | undefined): void {
    if (name !== undefined) this.#kept.delete(name);
  }

  #begin(name: string): Session {
    const nowMs = this.#clock.monotonicMs();
    return this.#use(name, { token: random(), said: undefined, sinceMs: nowMs, usedMs: nowMs });
  }

  #use(name: string, session: KeptSession): Session {
    session.usedMs = this.#clock.monotonicMs();
    this.#kept.delete(name);
    this.#kept.set(name, session);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MAX_SESSIONS && oldest !== undefined) this.#kept.delete(oldest);
    return session;
  }

  /** Ends sessions that are too old. */
  #endOld(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [name, { sinceMs, usedMs }] of this.#kept) {
      if (nowMs - usedMs > IDLE_MS || nowMs - sinceMs > LONGEST_MS) this.#kept.delete(name);
    }
  }
}

export function hasToken({ token }: Session, given: string | undefined): boolean {
  const [ours, theirs] = [Buffer.from(token), Buffer.from(given ?? '')];
  return ours.byteLength === theirs.byteLength && timingSafeEqual(ours, theirs);
}

function random(): string {
  return randomBytes(32).toString('base64url');
}
