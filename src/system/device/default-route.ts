import { readFile } from 'node:fs/promises';

import { undefinedIfMissing } from '../errors.ts';

/** The route is up, and does not reject packets. Source: linux/route.h. */
const RTF_UP = 0x0001;
const RTF_REJECT = 0x0200;

interface Route {
  readonly name: string;
  readonly metric: number;
}

/**
 * The network interfaces of the default routes: for IPv4 and IPv6 the one with the lowest metric. Empty: there is no
 * default route.
 */
export async function defaultInterfaces(procNet = '/proc/net'): Promise<ReadonlySet<string>> {
  const [v4, v6] = await Promise.all([readTable(`${procNet}/route`), readTable(`${procNet}/ipv6_route`)]);
  const best = [preferred(parseRoutes(v4)), preferred(parseRoutes6(v6))];
  return new Set(best.filter((name) => name !== undefined));
}

/** The text of a routing table; empty if the kernel lacks this address family and so this file. */
async function readTable(path: string): Promise<string> {
  return (await undefinedIfMissing(readFile(path, 'utf8'))) ?? '';
}

/** Source: proc_net(5), /proc/net/route: numbers are hexadecimal except the metric. Pure. */
export function parseRoutes(table: string): readonly Route[] {
  return rowsOf(table)
    .filter(([, destination, , flags, , , , mask]) => isZero(destination) && isZero(mask) && isUp(flags))
    .map(([name = '', , , , , , metric = '']) => ({ name, metric: Number.parseInt(metric, 10) }));
}

/**
 * Source: linux/net/ipv6/route.c, rt6_info_route(): destination, its length, source, its length, next hop, metric,
 * uses, uses, flags, name. Pure.
 */
export function parseRoutes6(table: string): readonly Route[] {
  return rowsOf(table)
    .filter(([destination, length, , , , , , , flags]) => isZero(destination) && isZero(length) && isUp(flags))
    .map(([, , , , , metric = '', , , , name = '']) => ({ name, metric: Number.parseInt(metric, 16) }));
}

function rowsOf(table: string): readonly (readonly string[])[] {
  return table.split('\n').map((line) => line.trim().split(/\s+/));
}

function isZero(hex: string | undefined): boolean {
  return hex !== undefined && /^0+$/.test(hex);
}

function isUp(flags: string | undefined): boolean {
  const bits = Number.parseInt(flags ?? '', 16);
  return (bits & RTF_UP) !== 0 && (bits & RTF_REJECT) === 0;
}

/** The interface with the lowest metric; of several, the first one, which the kernel takes, too. */
function preferred(routes: readonly Route[]): string | undefined {
  const [first, ...others] = routes;
  if (first === undefined) return undefined;
  return others.reduce((best, route) => (route.metric < best.metric ? route : best), first).name;
}

/** Guarantee `metered`: returns the interface of the default route if one of these patterns matches it. */
export async function findMeteredLink(metered: readonly string[], procNet?: string): Promise<string | undefined> {
  if (metered.length === 0) return undefined;
  return [...(await defaultInterfaces(procNet))].find((name) => metered.some((pattern) => isNamed(name, pattern)));
}

function isNamed(name: string, pattern: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
