import { describe, expect, test } from 'vitest';

import { parseConfig } from '../../../src/config/read-config.ts';
import { parseListenAddress } from '../../../src/web/settings.ts';
import { leastConfig, problemsOf } from './config-texts.ts';

const files = (...names: readonly string[]): string => names.map((name) => `${name} = "/f"\n`).join('');
const TLS = ['certificate_file', 'key_file'] as const;

describe('where the page listens', () => {
  test.each([
    ['127.0.0.1:8077', { kind: 'tcp', host: '127.0.0.1', port: 8077, isLoopback: true }],
    ['127.8.8.8:1024', { kind: 'tcp', host: '127.8.8.8', port: 1024, isLoopback: true }],
    ['[::1]:8077', { kind: 'tcp', host: '::1', port: 8077, isLoopback: true }],
    ['[::ffff:127.0.0.1]:8077', { kind: 'tcp', host: '::ffff:127.0.0.1', port: 8077, isLoopback: true }],
    ['0.0.0.0:8443', { kind: 'tcp', host: '0.0.0.0', port: 8443, isLoopback: false }],
    ['[::]:8443', { kind: 'tcp', host: '::', port: 8443, isLoopback: false }],
    ['192.168.1.5:8443', { kind: 'tcp', host: '192.168.1.5', port: 8443, isLoopback: false }],
    ['/run/thing-agent/page.sock', { kind: 'socket', path: '/run/thing-agent/page.sock' }],
  ])('is read: %s', (text, place) => {
    expect(parseListenAddress(text)).toEqual(place);
  });

  test.each([
    'localhost:8077',
    '127.0.0.1',
    '127.0.0.1:0',
    '127.0.0.1:1023', // the unit grants no right to such a port
    '127.0.0.1:65536',
    '[127.0.0.1]:1',
    '::1:8077',
    '/',
    '/run/',
  ])('is refused: %s', (text) => {
    expect(parseListenAddress(text)).toBeUndefined();
  });
});

describe('a page', () => {
  const beyond =
    'web.listen is not loopback: it needs certificate_file and key_file, and password_file or client_ca_file as well';
  const unprotected = 'web.allow_operations = true needs password_file or client_ca_file as well';

  test.each([
    ['for this machine alone', 'listen = "127.0.0.1:8077"\n'],
    ['on a socket', 'listen = "/run/thing-agent/page.sock"\n'],
    ['for others, with a password', `listen = "[::]:8443"\n${files(...TLS, 'password_file')}`],
    ['for others, with certificates', `listen = "[::]:8443"\n${files(...TLS, 'client_ca_file')}`],
    ['that does something', `listen = "127.0.0.1:8077"\nallow_operations = true\n${files('password_file')}`],
  ])('%s is good', (_what, text) => {
    expect(() => parseConfig('config.toml', `${leastConfig}[web]\n${text}`)).not.toThrow();
  });

  test.each([
    ['in the open', 'listen = "0.0.0.0:8080"\n', [beyond]],
    ['in the open, with a password', `listen = "0.0.0.0:8080"\n${files('password_file')}`, [beyond]],
    ['encrypted, for everybody', `listen = "[::]:8080"\n${files(...TLS)}`, [beyond]],
    ['that does something for everybody', 'listen = "127.0.0.1:8077"\nallow_operations = true\n', [unprotected]],
    [
      'that is off, and does something',
      `allow_operations = true\n${files('password_file')}`,
      ['web.allow_operations = true has no effect without listen'],
    ],
    ['half encrypted', files('certificate_file'), ['web.certificate_file needs key_file as well']],
    ['half encrypted the other way', files('key_file'), ['web.key_file needs certificate_file as well']],
    ['with certificates in the clear', files('client_ca_file'), ['web.client_ca_file needs certificate_file as well']],
  ])('%s is refused', (_what, text, problems) => {
    const found = problemsOf(`${leastConfig}[web]\n${text}`).map((line) => line.replace(/^\d+: /, ''));
    expect(found).toEqual(problems);
  });
});
