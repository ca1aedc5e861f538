import type { Clock } from '../../../system/time/clock.ts';
import { ServiceError } from '../../errors.ts';
import type { ServiceErrorCode } from '../../errors.ts';
import { translateTransportError } from '../../rest/connection/transport-errors.ts';

/** The errors of the connection to the broker. `broker` is its `host:port`. */

/** Returns the error for a socket that could not be opened. Certificates are checked as in the REST form. */
export function socketError(error: unknown, broker: string, clock: Pick<Clock, 'nowMs'>): ServiceError {
  const { code, message } = translateTransportError(error, { kind: 'service', name: `the broker ${broker}` }, clock);
  return new ServiceError({
    code: socketCodes.get(code) ?? code,
    why: message,
    advice: tlsAdvice.get(code),
    cause: error,
  });
}

/** An open connection broke. `why` completes "the broker …". */
export function lostError(broker: string, why = 'closed the connection', cause?: unknown): ServiceError {
  return new ServiceError({ code: 'broker-lost', why: `the broker ${broker} ${why}`, cause });
}

/** The connection broke before the broker accepted us: mostly the link is not the reason. */
export function entryError(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'broker-lost') return error;
  return new ServiceError({
    code: 'broker-lost',
    why: `${error.message} before it let us in`,
    advice: 'check that service.messaging.url names an MQTT port, by mqtts:// where it has TLS; see the broker’s log',
    cause: error,
  });
}

export function brokenError(error: Error, broker: string): ServiceError {
  const why = `the broker ${broker} does not keep to MQTT: ${error.message}`;
  return new ServiceError({ code: 'broker-unsupported', why, cause: error });
}

export function silentError(broker: string, why: string): ServiceError {
  return new ServiceError({ code: 'broker-timeout', why: `the broker ${broker} ${why}` });
}

/**
 * Reason codes of MQTT 5.0, section 2.4, and return codes of CONNACK in MQTT 3.1.1, section 3.2.2.3. `what` completes
 * "the broker …": "does not let us in", "does not take v1.json".
 */
export function refusedError(reason: number, broker: string, what: string): ServiceError {
  const { code, phrase } = reasons.get(reason) ?? { code: 'broker-unavailable', phrase: 'for an unknown reason' };
  return new ServiceError({ code, why: `the broker ${broker} ${what}: ${phrase} (reason ${reason})` });
}

const socketCodes: ReadonlyMap<ServiceErrorCode, ServiceErrorCode> = new Map([
  ['connection-refused', 'broker-refused'],
  ['connection-reset', 'broker-lost'],
  ['connection-failed', 'broker-unreachable'],
  ['name-unresolved', 'broker-unreachable'],
  ['connect-timeout', 'broker-timeout'],
  ['reply-malformed', 'broker-unsupported'],
]);

const files = 'check ca_file, client_certificate_file and client_key_file in [service.messaging]';

const tlsAdvice: ReadonlyMap<ServiceErrorCode, string> = new Map([
  [
    'tls-unknown-ca',
    'set service.messaging.ca_file to the authority that issued the broker’s certificate; the system’s are not read:' +
      ' "/etc/ssl/certs/ca-certificates.crt" there takes them',
  ],
  ['tls-wrong-host', 'set service.messaging.url to the host that the certificate names'],
  ['tls-expired', 'the broker’s operator must renew the certificate; check the clock of this gateway too'],
  ['tls-client-certificate', files],
  ['tls-failed', 'check that service.messaging.url names a TLS port'],
  ['tls-files-invalid', files],
]);

interface Meant {
  readonly code: ServiceErrorCode;
  readonly phrase: string;
}

const notAuthorized: Meant = { code: 'broker-not-authorized', phrase: 'not authorized' };
const badLogin: Meant = { code: 'broker-not-authorized', phrase: 'the user name or password is wrong' };
const badVersion: Meant = { code: 'broker-unsupported', phrase: 'it does not speak this version of MQTT' };
const badClientId: Meant = { code: 'broker-unsupported', phrase: 'it does not accept our client id' };
const unavailable: Meant = { code: 'broker-unavailable', phrase: 'it is unavailable' };

const reasons: ReadonlyMap<number, Meant> = new Map([
  [1, badVersion],
  [2, badClientId],
  [3, unavailable],
  [4, badLogin],
  [5, notAuthorized],
  [0x80, { code: 'broker-not-authorized', phrase: 'refused, without a reason' }],
  [0x81, { code: 'broker-unsupported', phrase: 'a packet was malformed' }],
  [0x82, { code: 'broker-unsupported', phrase: 'the protocol was not kept' }],
  [0x84, badVersion],
  [0x85, badClientId],
  [0x86, badLogin],
  [0x87, notAuthorized],
  [0x88, unavailable],
  [0x89, { code: 'broker-unavailable', phrase: 'it is busy' }],
  [0x8a, { code: 'broker-not-authorized', phrase: 'this client is banned' }],
  [0x8b, { code: 'broker-unavailable', phrase: 'it is shutting down' }],
  [0x8c, { code: 'broker-not-authorized', phrase: 'it wants another way of authentication' }],
  [0x8d, { code: 'broker-timeout', phrase: 'it did not hear from us in time' }],
  [0x8e, { code: 'broker-session-taken', phrase: 'another client connected with the same client id' }],
  [0x8f, { code: 'broker-unsupported', phrase: 'it does not accept this topic' }],
  [0x90, { code: 'broker-unsupported', phrase: 'it does not accept this topic' }],
  [0x95, { code: 'broker-unsupported', phrase: 'a packet was too large' }],
  [0x96, { code: 'broker-unavailable', phrase: 'it wants fewer messages' }],
  [0x97, { code: 'broker-unavailable', phrase: 'a quota is used up' }],
  [0x98, { code: 'broker-unavailable', phrase: 'its operator ended the connection' }],
  [0x9c, { code: 'broker-unavailable', phrase: 'it wants another broker to be used' }],
  [0x9d, { code: 'broker-unavailable', phrase: 'it has moved' }],
  [0x9f, { code: 'broker-unavailable', phrase: 'it wants fewer connections' }],
]);
