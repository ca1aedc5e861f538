import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';
import { connectionErrors } from './connection-errors.ts';

/**
 * The meaning of each code for a caller. A code has `give-up` only if the service refused this very request, or if
 * something on this gateway is wrong; everything that the network, the certificates or the service may fix without this
 * gateway is `retry`.
 */
const ServiceErrors = defineErrors('ServiceError', {
  // the key
  'key-rejected': transient.refused(
    'The service does not accept this gateway’s key.',
    'the agent activates again automatically; if this persists, check the thing and its rights at the service',
  ),
  'key-required': permanent.refused(
    'The service requires a key for a call that was made without one.',
    'set service.key_on_provisioning = true',
  ),
  'identity-foreign': permanent.disk(
    'The state directory belongs to another serial number, and its data was not set aside.',
    'make the state directory writable, and restart the agent: systemctl restart thing-agent',
  ),
  'activation-refused': transient.refused(
    'The service refuses to activate this gateway.',
    'check device.serial_number, and that the service knows and permits it',
  ),
  'serial-number-shared': transient.refused(
    'Another device activates with the same serial number, so that each takes the other’s key away.',
    'find the other device with this serial number, or give this one its own (device.serial_number)',
  ),

  // statuses
  'service-not-found': permanent.failed(
    'The service does not know the requested resource.',
    'check service.url and the id; if the thing was deleted at the service, `agent activate` creates it again',
  ),
  'service-conflict': transient.tryAgain(
    'The request contradicts the state of the thing at the service.',
    'check the state of the thing at the service',
  ),
  'service-too-large': permanent.failed('The request is too large for the service.', 'send less in one request'),
  'service-rate-limited': transient.tryAgain(
    'The service limits the rate of calls.',
    'nothing: the agent retries later',
  ),
  'service-request-timeout': transient.tryAgain(
    'The service timed out waiting for the end of the request.',
    'the connection is slow; try again',
  ),
  'service-rejected': permanent.failed(
    'The service does not accept the request, and would not accept it again.',
    'compare the request with the service’s interface',
  ),
  'service-unavailable': transient.tryAgain(
    'The service reports that it is temporarily down.',
    'wait; the service is down for a while',
  ),
  'service-failed': transient.tryAgain(
    'The service failed while it worked on the request.',
    'see the log of the service',
  ),
  'service-redirected': transient.protocol(
    'The service, or a network in between, redirects the agent to another address.',
    'set service.url to the actual address of the service; a network with a login page also redirects',
  ),

  ...connectionErrors,

  // requests in the messaging form
  'reply-timeout': transient.unreachable(
    'The service did not reply to a message.',
    'check the topics of [service.messaging], and that the service listens to that broker',
  ),
  'activation-timeout': transient.unreachable(
    'The service did not reply to the message that asks for activation.',
    'check the topics of [service.messaging]; the request is not repeated immediately, as a second activation drops the first one’s key',
  ),
  'too-many-requests': transient.tryAgain(
    'Too many requests wait for a reply from the service.',
    'wait until the service has answered some of them',
  ),
  'message-too-large': permanent.refused(
    'An encoded firmware image, or a request, exceeds the size of one message.',
    'set service.messaging.firmware_transport = "rest", or raise service.messaging.max_message',
  ),

  // errors of the service
  'reply-malformed': transient.protocol(
    'The response of the service is malformed.',
    'check that service.url names the right service',
  ),
  'reply-web-page': transient.unreachable(
    'A web page answered instead of the service.',
    'a captive portal may be answering: log in to this network, or let it pass the gateway; otherwise check service.url' +
      ' and any proxy in front of the service, such as a maintenance page',
  ),
  'reply-too-large': transient.protocol(
    'The response of the service exceeds the limit.',
    'check that service.url names the right service',
  ),
  'reply-truncated': transient.protocol(
    'The response of the service is truncated.',
    'the reply was interrupted; try again',
  ),
  'firmware-changed': sharedErrors['firmware-changed'],
  'id-invalid': permanent.usage(
    'An id is empty, or made of dots alone, and cannot be part of an address.',
    'give an id that is neither empty nor dots alone',
  ),
  'value-invalid': sharedErrors['value-invalid'],
});

export type ServiceErrorCode = CodeOf<typeof ServiceErrors>;

export interface ServiceFailure {
  readonly code: ServiceErrorCode;
  /** The cause, without the operation: "things.example.com:443 refused the connection". */
  readonly why: string;
  /** The name of the operation: "target version". */
  readonly operation?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Replaces the advice of the code. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
  /** True if the service was reached and reported this. */
  readonly isAnswer?: boolean | undefined;
}

/** A failure between this gateway and the provisioning service, in either form. */
export class ServiceError extends ServiceErrors {
  readonly #failure: ServiceFailure;

  constructor(failure: ServiceFailure) {
    const { code, why, operation, isAnswer: _, ...detail } = failure;
    super(code, operation === undefined ? why : `${operation}: ${why}`, detail);
    this.#failure = failure;
  }

  /** True if the service was reached and reported this itself. */
  get isAnswer(): boolean {
    return this.#failure.isAnswer === true;
  }

  /** The same failure with the name of the operation during which it happened. */
  during(operation: string): ServiceError {
    return new ServiceError({ ...this.#failure, operation });
  }
}

/** Codes of failures that only an operator, another device or a time server can end: no call waits for that. */
export const neverSoon: ReadonlySet<string> = new Set<ServiceErrorCode>([
  'key-rejected',
  'activation-refused',
  'activation-timeout',
  'serial-number-shared',
  'clock-wrong',
]);

export function isKeyRejected(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'key-rejected';
}
