import type { IncomingMessage } from 'node:http';

import type { PagePlace } from '../../config/page-config.ts';
import { Refusal } from '../page-errors.ts';

const loopbackNames: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * Refuses a request under a name that is not ours: a page of somebody else, whose name was made to lead here, could read
 * this one. Ports are not looked at: a forwarded one is another (ssh -L).
 */
export function requireOurName(request: IncomingMessage, place: PagePlace, hosts: readonly string[]): void {
  const name = nameOf(request.headers.host);
  if (name !== undefined && (hosts.includes(name) || isPlace(name, place))) return;
  throw new Refusal(421, 'This page is not served under that name: [page] hosts names those that are.');
}

function isPlace(name: string, place: PagePlace): boolean {
  if (place.kind === 'socket' || place.isLoopback)
    return loopbackNames.has(name) || (place.kind === 'tcp' && name === written(place.host));
  return name === written(place.host) || (isAny(place.host) && /^[\d.]+$|^\[[\da-f:.]+\]$/.test(name));
}

/** Listening everywhere, it is asked for by whatever address it has; what is no name cannot be rebound. */
function isAny(host: string): boolean {
  return host === '0.0.0.0' || /^[0:]+$/.test(host);
}

function written(host: string): string {
  return host.includes(':') ? new URL(`http://[${host}]`).hostname : host;
}

/** Without its port, as a browser writes it; undefined: it is none. */
function nameOf(host: string | undefined): string | undefined {
  if (host === undefined || !/^[\w.:[\]-]+$/.test(host) || !URL.canParse(`http://${host}`)) return undefined;
  return new URL(`http://${host}`).hostname;
}

/**
 * Refuses what another page made the browser send. All browsers of today say where a request comes from; one that says
 * neither is none that a person uses here.
 */
export function requireSamePage({ headers }: IncomingMessage): void {
  const { origin, host = '' } = headers;
  const site = headers['sec-fetch-site'];
  const isOurs =
    origin === undefined || (URL.canParse(origin) && new URL(origin).host === new URL(`http://${host}`).host);
  const isSame = site === undefined || site === 'same-origin';
  if (isOurs && isSame && (origin !== undefined || site !== undefined)) return;
  throw new Refusal(403, 'This was asked by another page than ours.');
}
