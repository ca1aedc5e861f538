import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { errorOfStatus, excerptOf, retryAfterMs, serviceTimeMs } from '../../../../src/service/rest/statuses.ts';
import { ManualClock } from '../../../fakes/clock.ts';

const nowMs = new ManualClock().nowMs();
const place = 'things.example.com:8443/v1/x';
const inTwoMinutes = new Date(nowMs + 120_000).toUTCString();

describe('statuses', () => {
  test.each([
    [401, 'key-rejected', 'retry', 'refused'],
    [403, 'key-rejected', 'retry', 'refused'],
    [404, 'service-not-found', 'give-up', 'failed'],
    [405, 'service-not-found', 'give-up', 'failed'],
    [407, 'proxy-authentication', 'give-up', 'configuration'],
    [408, 'service-request-timeout', 'retry', 'tryAgain'],
    [409, 'service-conflict', 'retry', 'tryAgain'],
    [413, 'service-too-large', 'give-up', 'failed'],
    [422, 'service-rejected', 'give-up', 'failed'],
    [429, 'service-rate-limited', 'retry', 'tryAgain'],
    [500, 'service-failed', 'retry', 'tryAgain'],
    [502, 'service-failed', 'retry', 'tryAgain'],
    [503, 'service-unavailable', 'retry', 'tryAgain'],
    [511, 'reply-web-page', 'retry', 'unreachable'],
    [302, 'service-redirected', 'retry', 'protocol'],
    [999, 'reply-malformed', 'retry', 'protocol'],
  ])('%i means %s', (status, code, remedy, exit) => {
    const error = errorOfStatus(
      { operation: 'target version', status, place, headers: {}, excerpt: 'why', key: 'sent' },
      nowMs,
    );
    expect(error).toMatchObject({ code, remedy, exit });
    expect(error.message).toMatch(/^target version: .+\(status \d+ of things\.example\.com:8443\/v1\/x\): why$/);
    expect(error.advice).toBeTruthy();
  });

  test('401 on a call without a key means that the service requires one', () => {
    const refusal = {
      operation: 'target version',
      status: 401,
      place,
      headers: {},
      excerpt: undefined,
      key: 'not-sent',
    } as const;
    expect(errorOfStatus(refusal, nowMs)).toMatchObject({ code: 'key-required', remedy: 'give-up' });
  });

  test('403 on activation means that the serial number is not permitted', () => {
    const refusal = {
      operation: 'activation',
      status: 403,
      place,
      headers: {},
      excerpt: undefined,
      key: 'activation',
    } as const;
    expect(errorOfStatus(refusal, nowMs)).toMatchObject({ code: 'activation-refused' });
  });

  test('a redirect names only the origin of where it leads', () => {
    const headers = { location: 'https://login.example/in?token=secret' };
    const error = errorOfStatus(
      { operation: 'x', status: 302, place, headers, excerpt: undefined, key: 'sent' },
      nowMs,
    );
    expect(error.message).toContain('to https://login.example)');
    expect(error.message).not.toContain('secret');
  });
});

describe('Retry-After', () => {
  test.each([
    [{ 'retry-after': '120' }, 120_000],
    [{ 'retry-after': ' 0 ' }, 0],
    [{ 'retry-after': inTwoMinutes }, 120_000],
    [{ 'retry-after': new Date(nowMs - 120_000).toUTCString() }, 0],
    [{ 'retry-after': 'Friday, 01-Jan-27 00:02:00 GMT' }, 120_000],
    [{ 'retry-after': 'Fri Jan  1 00:02:00 2027' }, 120_000],
    [{ 'retry-after': '99999999999999999999' }, 24 * 3_600_000],
    [{ 'retry-after': '-5' }, undefined],
    [{ 'retry-after': '1.5' }, undefined],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': '' }, undefined],
    [{}, undefined],
  ])('%j is %s ms', (headers, expected) => {
    expect(retryAfterMs(headers, nowMs)).toBe(expected);
  });

  test('as a date counts from the service’s own date, because this clock may be wrong', () => {
    const headers = { 'retry-after': inTwoMinutes, date: new Date(nowMs).toUTCString() };
    expect(retryAfterMs(headers, 0)).toBe(120_000);
  });

  test('is undefined or a plausible number for any text', () => {
    fc.assert(
      fc.property(fc.string(), fc.option(fc.string(), { nil: undefined }), (text, date) => {
        const ms = retryAfterMs({ 'retry-after': text, date }, nowMs) ?? 0;
        expect(ms).toBeGreaterThanOrEqual(0);
        expect(ms).toBeLessThanOrEqual(24 * 3_600_000);
      }),
    );
  });
});

describe('the service’s clock', () => {
  test.each([
    [{ date: inTwoMinutes }, nowMs + 120_000],
    [{ date: inTwoMinutes, age: '60' }, undefined],
    [{ date: 'today' }, undefined],
    [{}, undefined],
  ])('of a reply with %j shows %s', (headers, expected) => {
    expect(serviceTimeMs(headers)).toBe(expected);
  });
});

describe('an excerpt of an error’s body', () => {
  test('is one line that does no harm on a terminal', () => {
    expect(excerptOf(Buffer.from('\u001b[31mno\r\n such\tthing\u0000\u009b'), undefined)).toBe('[31mno such thing');
  });

  test('does not repeat the key', () => {
    expect(excerptOf(Buffer.from('bad key k-123!'), 'k-123')).toBe('bad key ***!');
  });

  test('is short', () => {
    expect(excerptOf(Buffer.alloc(4096, 'x'), undefined)).toHaveLength(161);
  });

  test('is nothing where there is nothing', () => {
    expect(excerptOf(Buffer.from(' \n'), undefined)).toBeUndefined();
  });
});
