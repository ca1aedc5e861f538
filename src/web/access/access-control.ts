import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';

import type { PageDeps } from '../page-deps.ts';
import { Refusal } from '../page-errors.ts';
import { Password } from './password.ts';
import { hasToken, Sessions } from './sessions.ts';
import type { Session } from './sessions.ts';
import { addressOf } from './shares.ts';

type DoorDeps = Pick<PageDeps, 'settings' | 'clock' | 'log' | 'onLoginRefused'>;

const COOKIE = 'thing-agent-page';
/** The cookie's name over TLS: browsers let no other host of the same domain set a cookie with this prefix. */
const TLS_COOKIE = '__Host-thing-agent-page';
/**
 * The maximum number of addresses with wrong passwords in the security log; further ones are logged as `other
 * addresses`.
 */
const MAX_NAMED = 16;

/** Decides who may see the page, and who may operate the gateway on it. */
export class AccessControl {
  readonly #deps: DoorDeps;
  readonly #password: Password | undefined;
  readonly #sessions: Sessions;
  readonly #named = new Set<string>();
  readonly #cookieName: string;

  private constructor(deps: DoorDeps, password: Password | undefined) {
    this.#deps = deps;
    this.#password = password;
    this.#sessions = new Sessions(deps.clock);
    this.#cookieName = deps.settings.certificateFile === undefined ? COOKIE : TLS_COOKIE;
  }

  /** Throws PageError. */
  static async open(deps: DoorDeps): Promise<AccessControl> {
    const { passwordFile } = deps.settings;
    return new AccessControl(deps, passwordFile === undefined ? undefined : await Password.read(passwordFile));
  }

  /** Returns the session of a request, or undefined without a valid session. */
  sessionOf(request: IncomingMessage): Session | undefined {
    if (this.#password !== undefined) return this.#sessions.find(this.#cookieOf(request));
    const fingerprint = fingerprintOf(request);
    return fingerprint === undefined ? undefined : this.#sessions.ofCertificate(fingerprint);
  }

  /** True if this viewer may see the page: without a password everyone who can connect, else until the session ends. */
  mayView(session: Session | undefined): boolean {
    return this.#password === undefined || (session !== undefined && this.#sessions.has(session));
  }

  /**
   * Returns the session of an operator. The token proves that the request came from a form of this page. Throws
   * Refusal.
   */
  requireOperator(session: Session | undefined, token: string | undefined): Session {
    if (session === undefined || !this.#deps.settings.allowOperations)
      throw new Refusal(403, 'Not permitted: log in, and check [web] allow_operations.');
    return this.requireToken(session, token);
  }

  requireToken(session: Session | undefined, token: string | undefined): Session {
    if (session !== undefined && hasToken(session, token)) return session;
    throw new Refusal(403, 'This page is out of date. Load it again.');
  }

  /** Returns the cookie of a new session, or undefined if the password is wrong. Throws Refusal. */
  async login(request: IncomingMessage, given: string, signal: AbortSignal): Promise<string | undefined> {
    const from = addressOf(request.socket);
    if (this.#password === undefined) throw new Refusal(404, 'Not found.');
    if (await this.#password.matches(given, from, signal)) return this.#cookie(this.#sessions.begin());
    this.#deps.log.warn({ from }, 'wrong password for the web UI');
    if (this.#named.size < MAX_NAMED) this.#named.add(from);
    const who = this.#named.has(from) ? from : 'other addresses';
    this.#deps.onLoginRefused(`the page was given a wrong password, from ${who}`);
    return undefined;
  }

  /** Ends the session; returns the cookie that deletes its own. */
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

/** The fingerprint of the client certificate, which TLS has checked. */
function fingerprintOf({ socket }: IncomingMessage): string | undefined {
  return socket instanceof TLSSocket && socket.authorized ? socket.getPeerCertificate().fingerprint256 : undefined;
}
