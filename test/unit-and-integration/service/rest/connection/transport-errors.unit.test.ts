import { describe, expect, test } from 'vitest';

import { ServiceError } from '../../../../../src/service/errors.ts';
import { translateTransportError } from '../../../../../src/service/rest/connection/transport-errors.ts';
import { ConnectFailure } from '../../../../../src/system/dialing.ts';
import { ManualClock } from '../../../../fakes/clock.ts';

const clock = new ManualClock();
const service = { kind: 'service', name: 'things.example.com:443' } as const;
const proxy = { kind: 'proxy', name: 'the proxy p:3128' } as const;

function systemError(code: string): Error {
  return Object.assign(new Error(`something about ${code}`), { code });
}

describe('an error of the connection', () => {
  test.each([
    ['ECONNREFUSED', 'connection-refused'],
    ['ECONNRESET', 'connection-reset'],
    ['EPIPE', 'connection-reset'],
    ['UND_ERR_SOCKET', 'connection-reset'],
    ['ENOTFOUND', 'name-unresolved'],
    ['EAI_AGAIN', 'name-unresolved'],
    ['ENETUNREACH', 'connection-failed'],
    ['ETIMEDOUT', 'connect-timeout'],
    ['UND_ERR_HEADERS_TIMEOUT', 'first-byte-timeout'],
    ['UND_ERR_BODY_TIMEOUT', 'idle-timeout'],
    ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'reply-truncated'],
    ['UND_ERR_HEADERS_OVERFLOW', 'reply-malformed'],
    ['HPE_INVALID_CONSTANT', 'reply-malformed'],
    ['HPE_INVALID_EOF_STATE', 'reply-truncated'],
    ['ERR_ASSERTION', 'reply-malformed'],
    ['SELF_SIGNED_CERT_IN_CHAIN', 'tls-unknown-ca'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls-unknown-ca'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls-wrong-host'],
    ['CERT_HAS_EXPIRED', 'tls-expired'],
    ['CERT_NOT_YET_VALID', 'clock-wrong'],
    ['CERT_REVOKED', 'tls-failed'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls-failed'],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'tls-client-certificate'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'tls-client-certificate'],
    ['ESOMETHING', 'connection-failed'],
  ])('%s is %s, which waiting may cure', (code, expected) => {
    const error = translateTransportError(systemError(code), service, clock);
    expect(error).toMatchObject({ code: expected, remedy: 'retry' });
    expect(error.message).toContain('things.example.com:443');
  });

  test('of TLS has OpenSSL’s words, without its source locations', () => {
    const places = '40AD:error:0A000102:SSL routines:ssl_choose_client_version:unsupported protocol:ssl/x.c:77:';
    const error = Object.assign(new Error(places), {
      code: 'ERR_SSL_UNSUPPORTED_PROTOCOL',
      reason: 'unsupported protocol',
    });
    expect(translateTransportError(error, service, clock).message).toBe(
      'things.example.com:443 cannot be used: unsupported protocol',
    );
  });

  test('of undici’s parser is known by its name where it has no code', () => {
    const error = Object.assign(new Error('Expected HTTP/'), { name: 'HTTPParserError', code: undefined });
    expect(translateTransportError(error, service, clock).code).toBe('reply-malformed');
  });

  test('of undici’s parser in the middle of chunks is a cut, also where it has no code', () => {
    const error = Object.assign(new Error('Response does not match the HTTP/1.1 protocol (Invalid EOF state)'), {
      name: 'HTTPParserError',
      code: undefined,
    });
    expect(translateTransportError(error, service, clock).code).toBe('reply-truncated');
  });

  test('lists what each address answered', () => {
    const error = new ConnectFailure(systemError('ECONNREFUSED'), ' (2001:db8::1: cannot be reached)');
    expect(translateTransportError(error, service, clock)).toMatchObject({
      code: 'connection-refused',
      message: `${service.name} refused the connection (2001:db8::1: cannot be reached)`,
    });
  });

  test.each(['ECONNREFUSED', 'ENOTFOUND', 'ECONNRESET'])(
    '%s of the proxy reports that the proxy is unreachable',
    (code) => {
      const error = translateTransportError(systemError(code), proxy, clock);
      expect(error).toMatchObject({ code: 'proxy-unreachable' });
      expect(error.message).toContain('the proxy p:3128');
    },
  );

  test('an expired certificate before the time of writing means that the clock is wrong', () => {
    const early = new ManualClock(Date.UTC(2000, 0, 1));
    const error = translateTransportError(systemError('CERT_HAS_EXPIRED'), service, early);
    expect(error.code).toBe('clock-wrong');
    expect(error.message).toContain('2000-01-01');
    expect(error.advice).toContain('clock');
  });

  test('that was translated already stays as it is', () => {
    const error = new ServiceError({ code: 'tls-files-invalid', why: 'no file' });
    expect(translateTransportError(error, service, clock)).toBe(error);
  });

  test('may be anything that was thrown', () => {
    expect(translateTransportError('what', service, clock).code).toBe('connection-failed');
  });
});
