import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { cutText, isSecretKey, maskAddress, maskAddresses, maskSecrets } from '../../../../src/system/log/secrets.ts';

describe('isSecretKey', () => {
  test.each([
    'apiKey',
    'api_key',
    'X-ApiKey',
    'X-API-KEY',
    'password',
    'Authorization',
    'client_secret',
    'accessToken',
  ])('hides what is called %s', (key) => {
    expect(isSecretKey(key)).toBe(true);
  });

  test.each(['url', 'password_file', 'keys', 'thingId', 'client_key_file'])('shows what is called %s', (key) => {
    expect(isSecretKey(key)).toBe(false);
  });
});

describe('maskAddresses', () => {
  test.each([
    ['https://user:pw@host:8080/path', 'https://********@host:8080/path'],
    ['GET https://host/p?key=s#f failed', 'GET https://host/p?******** failed'],
    ['two: mqtt://a:b@h and http://c:d@i/x', 'two: mqtt://********@h and http://********@i/x'],
    ['mail someone@example.com? yes', 'mail someone@example.com? yes'],
    ['https://host/path', 'https://host/path'],
    ['https://tech:hun/ter2@host/x', 'https://********@host/x'],
    ['found "mqtt://me:pa#ss?5@broker/" here', 'found "mqtt://********@broker/" here'],
    ['https://u:p@ss@host:8080/a and https://v:"w@host', 'https://********@host:8080/a and https://********@host'],
  ])('makes of %j: %j', (text, masked) => {
    expect(maskAddresses(text)).toBe(masked);
  });

  test('leaves nothing of user, password or query, whatever the address', () => {
    const user = fc.stringMatching(/^S3[A-Za-z0-9:@%./?#-]{1,12}$/);
    const part = fc.stringMatching(/^S3[A-Za-z0-9:%.-]{1,12}$/);
    fc.assert(
      fc.property(user, part, (user, query) => {
        const masked = maskAddresses(`x https://${user}@host/a?${query} y`);
        expect(masked).toBe('x https://********@host/a?******** y');
      }),
    );
  });
});

// Regression: "config check" printed the password of an address in which it was not percent-encoded.
describe('maskAddress', () => {
  test('leaves nothing of user and password, whatever they contain', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (user) => {
        expect(maskAddress(`https://${user}@host/a`)).toBe('https://********@host/a');
      }),
    );
  });

  test.each([
    ['https://host:8080/path', 'https://host:8080/path'],
    ['no address', 'no address'],
  ])('makes of %j: %j', (text, masked) => {
    expect(maskAddress(text)).toBe(masked);
  });
});

describe('maskSecrets', () => {
  test('reaches into tables and lists and keeps the rest', () => {
    const value = { a: [{ password: 'p', url: 'http://u:p@h' }], b: { token: ['t'] }, c: 1, d: undefined };
    expect(maskSecrets(value)).toEqual({
      a: [{ password: '********', url: 'http://********@h' }],
      b: { token: '********' },
      c: 1,
      d: undefined,
    });
  });
});

test('a truncated text keeps no half of an address, whose secrets would be undetectable', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), (maxLength) => {
      const shown = maskAddresses(cutText('cannot reach https://user:S3CRET@host/a?S3CRET at all', maxLength));
      expect(shown).not.toContain('S3');
    }),
  );
});
