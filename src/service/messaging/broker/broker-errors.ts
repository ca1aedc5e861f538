import { describeReason } from '../../../mqtt/describe-reason.ts';
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
  const [code] = reasonCodes.find(([, reasons]) => reasons.includes(reason)) ?? ['broker-unavailable'];
  return new ServiceError({ code, why: `the broker ${broker} ${what}: ${describeReason(reason)}` });
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

/** Reason codes that mean something else than that the broker is unavailable for now. */
const reasonCodes: readonly (readonly [ServiceErrorCode, readonly number[]])[] = [
  ['broker-not-authorized', [4, 5, 0x80, 0x86, 0x87, 0x8a, 0x8c]],
  ['broker-unsupported', [1, 2, 0x81, 0x82, 0x84, 0x85, 0x8f, 0x90, 0x95]],
  ['broker-timeout', [0x8d]],
  ['broker-session-taken', [0x8e]],
];
