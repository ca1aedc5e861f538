import { describe, expect, test } from 'vitest';

import { refusedError, socketError } from '../../../../src/service/messaging/broker/broker-errors.ts';
import { rpcError } from '../../../../src/service/messaging/reply.ts';

const clock = { nowMs: () => Date.UTC(2027, 0, 1) };

describe('an error object of the service', () => {
  test.each([
    [-32_700, 'service-failed', 'retry'],
    [-32_600, 'service-rejected', 'give-up'],
    [-32_601, 'service-rejected', 'give-up'],
    [-32_602, 'service-rejected', 'give-up'],
    [-32_603, 'service-failed', 'retry'],
    [-32_000, 'service-failed', 'retry'],
    [-32_099, 'service-failed', 'retry'],
    [-32_100, 'service-rejected', 'give-up'],
    [401, 'service-rejected', 'give-up'],
    [404, 'service-not-found', 'give-up'],
    [409, 'service-conflict', 'retry'],
    [413, 'service-too-large', 'give-up'],
    [429, 'service-rate-limited', 'retry'],
    [500, 'service-failed', 'retry'],
    [503, 'service-unavailable', 'retry'],
    [1, 'service-rejected', 'give-up'],
  ])('with code %i is %s, to %s', (code, meant, remedy) => {
    expect(rpcError({ code, message: 'm' }, 'switch', false)).toMatchObject({
      code: meant,
      remedy,
    });
  });

  test.each([401, 403])('with code %i refuses an activation', (code) => {
    const error = rpcError({ code, message: 'm' }, 'activation', true);
    expect(error).toMatchObject({ code: 'activation-refused', remedy: 'retry' });
  });

  test('shows code and message in one clean line', () => {
    const error = rpcError({ code: -32_602, message: 'no\n\u001B[31msuch version' }, 'updates', false);
    expect(error.message).toBe(
      'updates: the service does not accept the parameters (error -32602): no [31msuch version',
    );
  });

  test.each([
    ['k3y', 'switch: the service rejects the request (error 400): the key *** is not welcome'],
    ['', 'switch: the service rejects the request (error 400): the key k3y is not welcome'],
  ])('does not repeat the secret "%s"', (secret, message) => {
    const failure = { code: 400, message: 'the key k3y is not welcome' };
    expect(rpcError(failure, 'switch', false, secret).message).toBe(message);
  });
});

describe('a broker', () => {
  test.each([
    [1, 'broker-unsupported'],
    [4, 'broker-not-authorized'],
    [5, 'broker-not-authorized'],
    [0x84, 'broker-unsupported'],
    [0x86, 'broker-not-authorized'],
    [0x87, 'broker-not-authorized'],
    [0x88, 'broker-unavailable'],
    [0x8b, 'broker-unavailable'],
    [0x8e, 'broker-session-taken'],
    [0x97, 'broker-unavailable'],
    [0xfe, 'broker-unavailable'],
  ])('that refuses with reason %i is %s, and may be tried again', (reason, code) => {
    const error = refusedError(reason, 'b:1883', 'does not let us in');
    expect(error).toMatchObject({ code, remedy: 'retry' });
    expect(error.message).toMatch(/^the broker b:1883 does not let us in: .*\(reason \d+\)$/);
  });

  test.each([
    ['ECONNREFUSED', 'broker-refused'],
    ['ECONNRESET', 'broker-lost'],
    ['ENOTFOUND', 'broker-unreachable'],
    ['EHOSTUNREACH', 'broker-unreachable'],
    ['ETIMEDOUT', 'broker-timeout'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'tls-unknown-ca'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls-wrong-host'],
  ])('that cannot be reached for %s is %s', (systemCode, code) => {
    const cause = Object.assign(new Error('x'), { code: systemCode });
    const error = socketError(cause, 'b:1883', clock);
    expect(error).toMatchObject({ code, remedy: 'retry' });
    expect(error.message).toContain('the broker b:1883');
    expect(error.advice).not.toMatch(/service\.(url|ca_file)/);
  });
});
