import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';

import { Refusal } from '../page-errors.ts';
import type { ListenAddress } from '../settings.ts';

const loopbackNames: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * Refuses a request under a name that is not ours: a foreign page whose name was made to point here could otherwise
 * read this page (DNS rebinding). The port does not matter: a forwarded one differs (ssh -L).
 */
export function requireKnownHost(request: IncomingMessage, place: ListenAddress, hosts: readonly string[]): void {
  const name = nameOf(request.headers.host);
  if (name !== undefined && (hosts.includes(name) || isPlace(name, place))) return;
  throw new Refusal(421, 'This page is not served under that name: add it to [web] hosts.');
}

function isPlace(name: string, place: ListenAddress): boolean {
  if (place.kind === 'socket' || place.isLoopback)
    return loopbackNames.has(name) || (place.kind === 'tcp' && name === written(place.host));
  return name === written(place.host) || (isAny(place.host) && /^[\d.]+$|^\[[\da-f:.]+\]$/.test(name));
}

/**
 * True if the web UI listens on all addresses. Any literal address is then accepted as a host, since an address cannot
 * be rebound.
 */
function isAny(host: string): boolean {
  return host === '0.0.0.0' || /^[0:]+$/.test(host);
}

function written(host: string): string {
  return host.includes(':') ? new URL(`http://[${host}]`).hostname : host;
}

/**
 * Returns the host of a `Host` header without its port, as a browser writes it, or undefined if the header is invalid.
 */
function nameOf(host: string | undefined): string | undefined {
  if (host === undefined || !/^[\w.:[\]-]+$/.test(host) || !URL.canParse(`http://${host}`)) return undefined;
  return new URL(`http://${host}`).hostname;
}

/**
 * Refuses a request that another page made the browser send. Every current browser sends `Origin` or `Sec-Fetch-Site`;
 * a request without both is from another client. A web server in front may end TLS, so that only the browser knows
 * the scheme: it then sends `Sec-Fetch-Site`, as for every page over TLS.
 */
export function requireSameOrigin({ headers, socket }: IncomingMessage): void {
  const { origin, host = '' } = headers;
  const site = headers['sec-fetch-site'];
  const scheme = socket instanceof TLSSocket ? 'https:' : 'http:';
  const own = new URL(`${scheme}//${host}`);
  const sent = origin !== undefined && URL.canParse(origin) ? new URL(origin) : undefined;
  const isSame = site === 'same-origin' || (site === undefined && sent?.protocol === scheme);
  if (isSame && (origin === undefined || sent?.host === own.host)) return;
  throw new Refusal(403, 'This request came from another page.');
}
