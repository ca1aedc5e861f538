import { expect, test } from 'vitest';

import { ownAddresses } from '../../../../src/system/device/own-addresses.ts';

const rest = { netmask: '', mac: '', cidr: null };
const lo = [{ ...rest, address: '127.0.0.1', family: 'IPv4', internal: true } as const];

test('the addresses of a gateway are those by which others reach it', () => {
  const eth0 = [
    { ...rest, address: 'fe80::1', family: 'IPv6', internal: false, scopeid: 2 } as const,
    { ...rest, address: '2001:db8::5', family: 'IPv6', internal: false, scopeid: 0 } as const,
    { ...rest, address: '192.0.2.5', family: 'IPv4', internal: false } as const,
  ];
  expect(ownAddresses({ lo, eth0 }, 'gw')).toEqual(['192.0.2.5', '[2001:db8::5]']);
  expect(ownAddresses({ lo }, 'gw')).toEqual(['gw']);
});
