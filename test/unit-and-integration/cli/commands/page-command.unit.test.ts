import { expect, test } from 'vitest';

import { parseArguments } from '../../../../src/cli/arguments/parse-arguments.ts';
import { runCommand } from '../../../../src/cli/run.ts';
import { fakeContext } from '../fake-context.ts';
import { calmStatus, fakeAgent } from '../fake-operations.ts';

const unserved = 'the web UI is not available: it cannot listen: EADDRINUSE';

test.each([
  ['nothing', {}, {}, 0, /^The web UI is off\. To turn it on, set \[web\] listen = "127\.0\.0\.1:8077"/],
  [
    'an address',
    { listen: '127.0.0.1:8077' },
    {},
    0,
    /^Web UI: http:\/\/127\.0\.0\.1:8077\/\nYou can view this gateway there, but not operate it\.\n$/,
  ],
  [
    'https',
    { listen: '[::2]:1', certificate_file: '/c', allow_operations: true },
    {},
    0,
    /^Web UI: https:\/\/\[::2\]:1\/\n.*You can view and operate this gateway there\.\n$/,
  ],
  [
    'all addresses, by the names that are its own',
    { listen: '0.0.0.0:8443', certificate_file: '/c', hosts: ['gw.example.com', 'gw'] },
    {},
    0,
    /^Web UI: https:\/\/gw\.example\.com:8443\/, https:\/\/gw:8443\/\n/,
  ],
  ['all addresses, by those', { listen: '[::]:80' }, {}, 0, /^Web UI: http:\/\/(?!\[::\]|0\.0\.0\.0)\S+:80\//],
  ['a socket', { listen: '/run/p' }, {}, 0, /^Web UI: HTTP on the Unix socket \/run\/p\n/],
  [
    'a port that is taken',
    { listen: '127.0.0.1:1' },
    { warnings: [unserved] },
    70,
    new RegExp(`^${unserved}\nConfigured address: `),
  ],
  [
    'no daemon',
    { listen: '127.0.0.1:1' },
    { daemon: false },
    70,
    /^The web UI is not served, since the daemon is not running[^]*\nConfigured address: http/,
  ],
] as const)('agent page says where: %s', async (...row) => {
  const [, page, status, exitCode, told] = row;
  const agent = fakeAgent({ status: async () => ({ ...calmStatus, ...status }) });
  const context = fakeContext({
    connect: async () => agent,
    config: { ...fakeContext().config, show: async () => ({ text: '', value: { web: page } }) },
  });
  expect(await runCommand(parseArguments(['web']), context)).toBe(exitCode);
  expect(context.out.text).toMatch(told);
});
