import { ServiceError } from '../errors.ts';
import type { ServiceErrorCode } from '../errors.ts';
import { excerptOf } from '../rest/statuses.ts';
import type { RpcFailure } from './reply.ts';

/** The service answered with an error object (JSON-RPC 2.0, section 5.1). */
export class RpcError extends ServiceError {
  readonly rpcCode: number;
  readonly rpcMessage: string;
  /** The details that the service adds, if any. */
  readonly data: unknown;

  /** `secret`: a text that the service may repeat, but that must not be shown to anyone else. */
  constructor({ code, message, data }: RpcFailure, operation: string, isActivation: boolean, secret?: string) {
    const { meant, phrase } = meaningOf(code, isActivation);
    const excerpt = excerptOf(Buffer.from(message), secret);
    const why = `${phrase} (error ${code})${excerpt === undefined ? '' : `: ${excerpt}`}`;
    super({ code: meant, operation, why, isAnswer: true });
    this.rpcCode = code;
    this.rpcMessage = message;
    this.data = data;
  }

  /** The error already names the operation. */
  override during(_operation: string): RpcError {
    return this;
  }
}

interface Meaning {
  readonly meant: ServiceErrorCode;
  readonly phrase: string;
}

const rejected: Meaning = { meant: 'service-rejected', phrase: 'the service rejects the request' };
const failed: Meaning = { meant: 'service-failed', phrase: 'the service failed' };

/**
 * The meaning of a code; interface.md shows no error object. Codes of JSON-RPC have their defined meaning; those from
 * 400 to 599 count as the HTTP statuses that the same service would answer in REST form; of others it is only known
 * that the service refused.
 */
function meaningOf(code: number, isActivation: boolean): Meaning {
  if (isActivation && (code === 401 || code === 403)) return activationRefused;
  const known = knownCodes.get(code);
  if (known !== undefined) return known;
  if (code <= -32_000 && code >= -32_099) return failed;
  return code >= 500 && code < 600 ? failed : rejected;
}

const activationRefused: Meaning = {
  meant: 'activation-refused',
  phrase: 'the service refuses to activate this serial number',
};

const knownCodes: ReadonlyMap<number, Meaning> = new Map([
  // our request was well-formed when it was sent
  [-32_700, { meant: 'service-failed', phrase: 'the service could not read the request' }],
  [-32_600, { meant: 'service-rejected', phrase: 'the service does not take it for a request' }],
  [-32_601, { meant: 'service-rejected', phrase: 'the service does not know the method' }],
  [-32_602, { meant: 'service-rejected', phrase: 'the service does not accept the parameters' }],
  [-32_603, failed],
  [404, { meant: 'service-not-found', phrase: 'the service does not know it' }],
  [408, { meant: 'service-request-timeout', phrase: 'the request reached the service too slowly' }],
  [409, { meant: 'service-conflict', phrase: 'it conflicts with the state at the service' }],
  [429, { meant: 'service-rate-limited', phrase: 'the service asks for fewer calls' }],
  [503, { meant: 'service-unavailable', phrase: 'the service is unavailable for now' }],
]);
