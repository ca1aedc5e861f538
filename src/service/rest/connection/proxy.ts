import { BlockList, isIP } from 'node:net';

import { undefinedIfThrows, isSyntaxError } from '../../../system/errors.ts';
import { ServiceError } from '../../errors.ts';

/** The values of HTTP_PROXY, HTTPS_PROXY and NO_PROXY; undefined or empty: none. */
export interface ProxySettings {
  readonly http?: string | undefined;
  readonly https?: string | undefined;
  readonly no?: string | undefined;
}

/** Reads the environment like curl: the name in lower case wins. */
export function proxyFromEnvironment(environment: Readonly<Record<string, string | undefined>>): ProxySettings {
  return {
    http: environment['http_proxy'] ?? environment['HTTP_PROXY'],
    https: environment['https_proxy'] ?? environment['HTTPS_PROXY'],
    no: environment['no_proxy'] ?? environment['NO_PROXY'],
  };
}

/** Returns the proxy for an address, or undefined to connect directly. A proxy without a scheme uses http. */
export function chooseProxy(target: URL, settings: ProxySettings): URL | undefined {
  const text = target.protocol === 'https:' ? settings.https : settings.http;
  if (text === undefined || text.trim() === '' || isExempt(target, settings.no ?? '')) return undefined;
  const address = text.includes('://') ? text.trim() : `http://${text.trim()}`;
  const proxy = URL.canParse(address) ? new URL(address) : undefined;
  if (proxy === undefined || !['http:', 'https:'].includes(proxy.protocol) || proxy.hostname === '') {
    throw invalid('the address of the proxy is not an http or https one');
  }
  return proxy;
}

/** The value of `Proxy-Authorization` (RFC 7617), from user name and password in the proxy's address. */
export function proxyAuthorization(proxy: URL): string | undefined {
  if (proxy.username === '') return undefined;
  const pair = `${decoded(proxy.username)}:${decoded(proxy.password)}`;
  return `Basic ${Buffer.from(pair, 'utf8').toString('base64')}`;
}

function decoded(text: string): string {
  const plain = undefinedIfThrows(isSyntaxError, () => decodeURIComponent(text));
  if (plain === undefined) throw invalid('the credentials of the proxy are not percent-encoded');
  return plain;
}

function invalid(why: string): ServiceError {
  return new ServiceError({ code: 'proxy-invalid', why });
}

/**
 * True if NO_PROXY exempts the target. It lists names with their subdomains, addresses and networks (`10.0.0.0/8`),
 * each with an optional port, or is `*`.
 */
function isExempt(target: URL, list: string): boolean {
  const host = bare(target.hostname);
  const port = target.port === '' ? (target.protocol === 'https:' ? '443' : '80') : target.port;
  return list.split(/[\s,]+/).some((entry) => entry !== '' && matches(host, port, entry.toLowerCase()));
}

function matches(host: string, port: string, entry: string): boolean {
  if (entry === '*') return true;
  if (entry.includes('/')) return isInNetwork(host, entry);
  const withPort = /^(\[[^\]]+\]|[^:]+):(\d+)$/.exec(entry);
  if (withPort !== null && withPort[2] !== port) return false;
  const name = bare(withPort?.[1] ?? entry).replace(/^\*?\./, '');
  return host === name || (isIP(host) === 0 && host.endsWith(`.${name}`));
}

function isInNetwork(host: string, network: string): boolean {
  const [address = '', bits = ''] = network.split('/');
  const family = isIP(host) === 6 ? 'ipv6' : 'ipv4';
  const prefix = Number(bits);
  if (isIP(host) === 0 || isIP(address) !== isIP(host) || !/^\d+$/.test(bits)) return false;
  if (prefix > (family === 'ipv6' ? 128 : 32)) return false;
  const list = new BlockList();
  list.addSubnet(address, prefix, family);
  return list.check(host, family);
}

/** A host without the brackets of an IPv6 address and without the final dot of a complete name. */
function bare(host: string): string {
  return host.replace(/^\[(.+)\]$/, '$1').replace(/(.)\.$/, '$1');
}
