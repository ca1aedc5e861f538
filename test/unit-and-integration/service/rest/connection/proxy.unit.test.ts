import { describe, expect, test } from 'vitest';

import {
  chooseProxy,
  proxyAuthorization,
  proxyFromEnvironment,
} from '../../../../../src/service/rest/connection/proxy.ts';

const https = new URL('https://things.example.com/api');
const http = new URL('http://things.example.com');

describe('the proxy', () => {
  test('is chosen by the scheme of the service', () => {
    const settings = { http: 'http://one:3128', https: 'http://two:3128' };
    expect(chooseProxy(http, settings)?.host).toBe('one:3128');
    expect(chooseProxy(https, settings)?.host).toBe('two:3128');
    expect(chooseProxy(https, { http: 'http://one:3128' })).toBeUndefined();
  });

  test('may be written without a scheme', () => {
    expect(chooseProxy(https, { https: 'proxy.example:8080' })?.href).toBe('http://proxy.example:8080/');
  });

  test('is unused if the variable is empty', () => {
    expect(chooseProxy(https, { https: ' ' })).toBeUndefined();
  });

  test.each(['socks5://proxy:1080', 'http://', 'http://%', '://'])('%s is refused as a mistake', (text) => {
    expect(() => chooseProxy(https, { https: text })).toThrow(
      expect.objectContaining({ code: 'proxy-invalid', exit: 'configuration' }),
    );
  });

  test('gets its user name and password decoded, in UTF-8', () => {
    const proxy = new URL('http://us%40er:p%C3%A4ss@proxy:3128');
    expect(proxyAuthorization(proxy)).toBe(`Basic ${Buffer.from('us@er:päss').toString('base64')}`);
    expect(proxyAuthorization(new URL('http://proxy'))).toBeUndefined();
  });

  test('with credentials that are not percent-encoded is a mistake', () => {
    expect(() => proxyAuthorization(new URL('http://us%er@proxy'))).toThrow(
      expect.objectContaining({ code: 'proxy-invalid' }),
    );
  });

  test('comes from the environment, the lower-case name first', () => {
    const environment = { https_proxy: 'a', HTTPS_PROXY: 'b', HTTP_PROXY: 'c', NO_PROXY: 'd' };
    expect(proxyFromEnvironment(environment)).toEqual({ https: 'a', http: 'c', no: 'd' });
  });
});

describe('NO_PROXY', () => {
  test.each([
    ['*', true],
    ['things.example.com', true],
    ['THINGS.example.COM', true],
    ['things.example.com.', true],
    ['example.com', true],
    ['.example.com', true],
    ['*.example.com', true],
    ['other, example.com', true],
    ['other example.com', true],
    ['things.example.com:443', true],
    ['things.example.com:8443', false],
    ['ample.com', false],
    ['example.org', false],
    ['10.0.0.0/8', false],
    [', ,', false],
  ])('%j: the service is reached directly: %s', (no, isDirect) => {
    expect(chooseProxy(https, { https: 'http://proxy', no }) === undefined).toBe(isDirect);
  });

  test.each([
    ['http://10.1.2.3', '10.0.0.0/8', true],
    ['http://11.1.2.3', '10.0.0.0/8', false],
    ['http://10.1.2.3', '10.0.0.0/x', false],
    ['http://10.1.2.3', '10.0.0.0/64', false],
    ['http://10.1.2.3', '2.3', false],
    ['http://[fd00::1]', 'fd00::/8', true],
    ['http://[fd00::1]', 'fd00::1', true],
    ['http://[fd00::1]:81', '[fd00::1]:81', true],
    ['http://[fd00::1]:81', '[fd00::1]:82', false],
    ['http://[fd00::1]', '10.0.0.0/8', false],
  ])('%s with %s is reached directly: %s', (address, no, isDirect) => {
    expect(chooseProxy(new URL(address), { http: 'http://proxy', no }) === undefined).toBe(isDirect);
  });
});
