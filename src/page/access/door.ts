import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';

import type { PageSettings } from '../../config/page-config.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import { Refusal } from '../page-errors.ts';
import { Password } from './password.ts';
import { hasToken, Sessions } from './sessions.ts';
import type { Session } from './sessions.ts';

export interface DoorParts {
  readonly settings: PageSettings;
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly log: Log;
  /** Somebody gave a wrong password. */
  readonly onLoginRefused: (why: string) => void;
}

const COOKIE = 'thing-agent-page';
/** Over TLS no other name of the same domain can set one of this name in the browser, before ours. */
const TLS_COOKIE = '__Host-thing-agent-page';
/** So many are named where wrong passwords are told of; beyond that, it is told that there were others. */
const MAX_NAMED = 16;

/** Who may see the page, and who may do something. */
export class Door {
  readonly #parts: DoorParts;
  readonly #password: Password | undefined;
  readonly #sessions: Sessions;
  readonly #named = new Set<string>();
  readonly #cookieName: string;

  private constructor(parts: DoorParts, password: Password | undefined) {
    this.#parts = parts;
    this.#password = password;
    this.#sessions = new Sessions(parts.clock);
    this.#cookieName = parts.settings.certificateFile === undefined ? COOKIE : TLS_COOKIE;
  }

  /** Throws PageError. */
  static async open(parts: DoorParts): Promise<Door> {
    const { passwordFile } = parts.settings;
    return new Door(parts, passwordFile === undefined ? undefined : await Password.read(passwordFile));
  }

  /** Undefined: nobody that is known. */
  sessionOf(request: IncomingMessage): Session | undefined {
    if (this.#password !== undefined) return this.#sessions.find(this.#cookieOf(request));
    const fingerprint = fingerprintOf(request);
    return fingerprint === undefined ? undefined : this.#sessions.ofCertificate(fingerprint);
  }

  /** Without a password, whoever can connect may look; else until the session ends. */
  mayLook(session: Session | undefined): boolean {
    return this.#password === undefined || (session !== undefined && this.#sessions.has(session));
  }

  /** Throws Refusal. The token shows that a page of ours asked. */
  requireOperator(session: Session | undefined, token: string | undefined): Session {
    if (session === undefined || !this.#parts.settings.operate)
      throw new Refusal(403, 'This page is for looking only.');
    return this.requireToken(session, token);
  }

  requireToken(session: Session | undefined, token: string | undefined): Session {
    if (session !== undefined && hasToken(session, token)) return session;
    throw new Refusal(403, 'This form is of an older page. Load the page again.');
  }

  /** The cookie of a new session; undefined: the password is wrong. Throws Refusal. */
  async login(request: IncomingMessage, given: string, signal: AbortSignal): Promise<string | undefined> {
    const from = addressOf(request);
    if (this.#password === undefined) throw new Refusal(404, 'There is nothing here.');
    if (await this.#password.matches(given, from, signal)) return this.#cookie(this.#sessions.begin());
    this.#parts.log.warn({ from }, 'a wrong password was given to the page');
    if (this.#named.size < MAX_NAMED) this.#named.add(from);
    const who = this.#named.has(from) ? from : 'other addresses';
    this.#parts.onLoginRefused(`the page was given a wrong password, from ${who}`);
    return undefined;
  }

  /** The cookie of none. */
  logout(request: IncomingMessage): string {
    this.#sessions.end(this.#cookieOf(request));
    return `${this.#cookie('')}; Max-Age=0`;
  }

  #cookie(value: string): string {
    const secure = this.#cookieName === TLS_COOKIE ? '; Secure' : '';
    return `${this.#cookieName}=${value}; HttpOnly; SameSite=Strict; Path=/${secure}`;
  }

  #cookieOf({ headers }: IncomingMessage): string | undefined {
    const begin = `${this.#cookieName}=`;
    const all = (headers.cookie ?? '').split(';').map((pair) => pair.trim());
    return all.find((pair) => pair.startsWith(begin))?.slice(begin.length);
  }
}

/** TLS has let in only who has a certificate that it trusts. */
function fingerprintOf({ socket }: IncomingMessage): string | undefined {
  return socket instanceof TLSSocket && socket.authorized ? socket.getPeerCertificate().fingerprint256 : undefined;
}

/** One household of IPv6 counts as one. */
function addressOf({ socket }: IncomingMessage): string {
  const address = (socket.remoteAddress ?? 'this machine').replace(/^::ffff:/, '');
  return address.includes(':') ? `${address.split(':').slice(0, 4).join(':')}::` : address;
}
