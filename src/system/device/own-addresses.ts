import { hostname, networkInterfaces } from 'node:os';

const MOST = 3;

/** Returns the addresses of this gateway, IPv4 first, or its name if it has no address. */
export function ownAddresses(interfaces = networkInterfaces(), name = hostname()): readonly string[] {
  const known = Object.values(interfaces).flatMap((addresses = []) => addresses);
  const far = known.filter(({ internal, scopeid = 0 }) => !internal && scopeid === 0); // a local one needs its interface
  const four = far.filter(({ family }) => family === 'IPv4').map(({ address }) => address);
  const six = far.filter(({ family }) => family === 'IPv6').map(({ address }) => `[${address}]`);
  const found = [...four, ...six].slice(0, MOST);
  return found.length === 0 ? [name] : found;
}
