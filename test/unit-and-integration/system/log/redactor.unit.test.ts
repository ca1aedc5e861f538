import { describe, expect, test } from 'vitest';

import { Redactor } from '../../../../src/system/log/redactor.ts';

const SECRET = 'p/ss "w0rd"';
const redactor = new Redactor([SECRET, 'abc', '  ', '']);

describe('a redactor', () => {
  test.each([
    ['as it is', SECRET],
    ['in an address', encodeURIComponent(SECRET)],
    ['in JSON', JSON.stringify(SECRET).slice(1, -1)],
    ['in base64', Buffer.from(SECRET).toString('base64')],
    ['in base64url', Buffer.from(SECRET).toString('base64url')],
    ['in hex', Buffer.from(SECRET).toString('hex')],
  ])('takes out a secret that it knows, %s', (_, spelling) => {
    expect(redactor.redact(`before ${spelling} after`)).toEqual({ text: 'before ******** after', count: 1 });
  });

  test('hides a very short one only where it is a whole word', () => {
    expect(redactor.redact('abc xabc abc.d abc,').text).toBe('******** xabc abc.d ********,');
  });

  test.each([
    ['password = "h1dden"', 'password = "********"'],
    ["mqtt_password: 'h1dden',", "mqtt_password: '********',"],
    ['{"apiKey":"h1dden","a":1}', '{"apiKey":"********","a":1}'],
    [String.raw`{\"apiKey\":\"h1dden\"}`, String.raw`{\"apiKey\":\"********\"}`],
    ['Authorization: Bearer h1dden', 'Authorization: ********'],
    ['API_KEY=h1dden x', 'API_KEY=******** x'],
    ['https://u:h1dden@host/?key=h1dden', 'https://********@host/?********'],
    ['-----BEGIN EC PRIVATE KEY-----\nh1dden\n-----END EC PRIVATE KEY-----\nrest', '********\nrest'],
    [String.raw`"-----BEGIN PRIVATE KEY-----\nh1dden\n-----END PRIVATE KEY-----"`, '"********"'],
    ['cut -----BEGIN PRIVATE KEY-----\nh1dden\nh1dden', 'cut ********'],
  ])('takes out what looks like one: %s', (text, left) => {
    expect(new Redactor([]).redact(text).text).toBe(left);
  });

  test.each([
    ['password_file = "/etc/thing-agent/mqtt-password"'],
    ['-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----'],
    ['http://127.0.0.1:8080/v1'],
  ])('leaves a text without secrets: %s', (text) => {
    expect(new Redactor([]).redact(text)).toEqual({ text, count: 0 });
  });

  test('leaves a value as well formed as it was, and counts what it took out of texts, names and secret members', () => {
    const value = { abc: [SECRET, 5, true, undefined], apiKey: { deep: 'x' }, token: undefined };
    expect(redactor.redactValue(value)).toEqual({
      value: { '********': ['********', 5, true, undefined], apiKey: '********', token: undefined },
      count: 3,
    });
  });
});
