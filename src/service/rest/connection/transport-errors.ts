import { ConnectFailure } from '../../../system/dialing.ts';
import { describeError, systemErrorCode } from '../../../system/errors.ts';
import type { Clock } from '../../../system/time/clock.ts';
import { TlsFilesError } from '../../../system/tls-files.ts';
import { ServiceError } from '../../errors.ts';
import type { ServiceErrorCode } from '../../errors.ts';

/** This program was written in this month, so that no working clock shows an earlier time. */
const earliestPlausibleTimeMs = Date.UTC(2026, 10, 1);

export interface Peer {
  /** For messages: `host:port`, or `the proxy host:port`. */
  readonly name: string;
  readonly kind: 'service' | 'proxy';
}

/**
 * Translates what Node (net, dns, tls) and undici throw into ServiceErrors. Sources of the codes: Node's documentation
 * ("Errors", "TLS"), OpenSSL's verification results and alerts, undici's `lib/core/errors.js`.
 */
export function translateTransportError(error: unknown, peer: Peer, clock: Pick<Clock, 'nowMs'>): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error instanceof TlsFilesError)
    return new ServiceError({ code: 'tls-files-invalid', why: error.message, cause: error });
  const code = systemErrorCode(error) ?? nameOf(error);
  const answers = error instanceof ConnectFailure ? error.answers : '';
  const { code: ours, phrase } = tlsFailure(code, clock.nowMs()) ?? plainFailure(code);
  return new ServiceError({
    code: peer.kind === 'proxy' && unreachableProxy.has(ours) ? 'proxy-unreachable' : ours,
    why: `${peer.name} ${phrase ?? `cannot be used: ${opensslReason(error) ?? describeError(error)}`}${answers}`,
    cause: error,
  });
}

/** The part of an OpenSSL error that is meant for people (Node, "Errors", OpenSSL errors). */
function opensslReason(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('reason' in error)) return undefined;
  return typeof error.reason === 'string' ? error.reason : undefined;
}

const unreachableProxy: ReadonlySet<ServiceErrorCode> = new Set([
  'connection-refused',
  'connection-reset',
  'connection-failed',
  'name-unresolved',
  'connect-timeout',
]);

/** The name of an error. undici's parser errors always have name and message, but a code only in some versions. */
function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  const isCut = error.name === 'HTTPParserError' && error.message.includes('Invalid EOF state');
  return isCut ? 'HPE_INVALID_EOF_STATE' : error.name;
}

interface Meant {
  readonly code: ServiceErrorCode;
  readonly phrase?: string;
}

function plainFailure(code: string): Meant {
  // undici asserts what its parser lets through, such as a status of at least 100
  return (
    plain.get(code) ?? (/^HPE_|^HTTPParserError$|^ERR_ASSERTION$/.test(code) ? notHttp : { code: 'connection-failed' })
  );
}

const notHttp: Meant = { code: 'reply-malformed', phrase: 'does not respond in HTTP/1.1' };
const reset: Meant = { code: 'connection-reset', phrase: 'cut the connection' };
const unresolved: Meant = { code: 'name-unresolved', phrase: 'has a name that cannot be resolved' };
const unroutable: Meant = { code: 'connection-failed', phrase: 'cannot be reached: no route to its network' };
const silentConnect: Meant = { code: 'connect-timeout', phrase: 'did not let us connect within the deadline' };

const plain: ReadonlyMap<string, Meant> = new Map([
  ['ECONNREFUSED', { code: 'connection-refused', phrase: 'refused the connection' }],
  ['ECONNRESET', reset],
  ['ECONNABORTED', reset],
  ['EPIPE', reset],
  ['UND_ERR_SOCKET', reset],
  ['ENOTFOUND', unresolved],
  ['EAI_AGAIN', unresolved],
  ['EAI_FAIL', unresolved],
  ['ENETUNREACH', unroutable],
  ['EHOSTUNREACH', unroutable],
  ['ENETDOWN', unroutable],
  ['EADDRNOTAVAIL', unroutable],
  ['ETIMEDOUT', silentConnect],
  ['UND_ERR_HEADERS_TIMEOUT', { code: 'first-byte-timeout', phrase: 'did not begin to answer within the deadline' }],
  ['UND_ERR_BODY_TIMEOUT', { code: 'idle-timeout', phrase: 'fell silent in the middle of its answer' }],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', { code: 'reply-truncated', phrase: 'sent another length than it announced' }],
  ['HPE_INVALID_EOF_STATE', { code: 'reply-truncated', phrase: 'closed the connection in the middle of its answer' }],
  ['UND_ERR_HEADERS_OVERFLOW', { code: 'reply-malformed', phrase: 'sent too many headers' }],
]);

const unknownCa: Meant = { code: 'tls-unknown-ca', phrase: 'has a certificate of an authority that is not trusted' };
const wrongHost: Meant = { code: 'tls-wrong-host', phrase: 'has a certificate for another host' };
const expired: Meant = { code: 'tls-expired', phrase: 'has a certificate that has expired' };
const ours: Meant = { code: 'tls-client-certificate', phrase: 'does not accept our client certificate' };

const verification: ReadonlyMap<string, Meant> = new Map([
  ['UNABLE_TO_GET_ISSUER_CERT', unknownCa],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', unknownCa],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', unknownCa],
  ['SELF_SIGNED_CERT_IN_CHAIN', unknownCa],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', unknownCa],
  ['CERT_UNTRUSTED', unknownCa],
  ['ERR_TLS_CERT_ALTNAME_INVALID', wrongHost],
  ['HOSTNAME_MISMATCH', wrongHost],
  ['CERT_HAS_EXPIRED', expired],
]);

/** TLS alerts with which the server refuses the agent's certificate, or the lack of one (RFC 8446, section 6.2). */
const clientAlert = /^ERR_SSL_.*ALERT_(CERTIFICATE_|BAD_CERTIFICATE|UNSUPPORTED_CERT|UNKNOWN_CA|ACCESS_DENIED)/;

function tlsFailure(code: string, nowMs: number): Meant | undefined {
  const now = new Date(nowMs).toISOString();
  if (code === 'CERT_NOT_YET_VALID') {
    return { code: 'clock-wrong', phrase: `has a certificate that is not valid yet at ${now}, this gateway's time` };
  }
  if (code === 'CERT_HAS_EXPIRED' && nowMs < earliestPlausibleTimeMs) {
    return { code: 'clock-wrong', phrase: `has a certificate that is not valid at ${now}, this gateway's time` };
  }
  const known = verification.get(code);
  if (known !== undefined) return known;
  if (clientAlert.test(code)) return ours;
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') return { code: 'tls-failed', phrase: 'does not respond in TLS' };
  if (/^(ERR_SSL_|ERR_TLS_|ERR_OSSL_|CERT_|EPROTO$)/.test(code)) return { code: 'tls-failed' };
  return undefined;
}
