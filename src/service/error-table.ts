import { defineErrors } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';
import { wayErrors } from './way-errors.ts';

/**
 * The meaning of each code for a caller. A code has `give-up` only if the service judged this very request, or if
 * something on this gateway is wrong; everything that the network, the certificates or the service may cure by
 * themselves is `retry`.
 */
export const ServiceErrors = defineErrors('ServiceError', {
  // the key
  'key-rejected': {
    remedy: 'retry',
    exit: 'refused',
    means: 'The service does not accept this gateway’s key.',
    advice: 'the agent activates again by itself; if this stays, look at the thing and its rights at the service',
  },
  'key-required': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'The service wants a key on a call that was made without one.',
    advice: 'set service.key_on_provisioning = true',
  },
  'activation-refused': {
    remedy: 'retry',
    exit: 'refused',
    means: 'The service refuses to activate this gateway.',
    advice: 'check device.serial_number, and that the service knows and permits it',
  },
  'serial-number-shared': {
    remedy: 'retry',
    exit: 'refused',
    means: 'Another device activates with the same serial number, so that each takes the other’s key away.',
    advice: 'find the other device with this serial number, or give this one its own (device.serial_number)',
  },

  // statuses
  'service-not-found': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The service does not know what was asked for.',
    advice: 'check service.url and the id; if the thing was deleted at the service, `agent activate` makes it again',
  },
  'service-conflict': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The request contradicts the state of the thing at the service.',
    advice: 'look at the state of the thing at the service',
  },
  'service-too-large': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The service finds the request too large.',
    advice: 'send less at once',
  },
  'service-rate-limited': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The service asks for fewer calls.',
    advice: 'wait; the service asks for fewer calls',
  },
  'service-request-timeout': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The service gave up waiting for the end of the request.',
    advice: 'the link is slow; try again',
  },
  'service-rejected': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The service does not accept the request, and would not accept it again.',
    advice: 'compare the request with what the service accepts',
  },
  'service-unavailable': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The service says that it is down for a while.',
    advice: 'wait; the service is down for a while',
  },
  'service-failed': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The service failed while it worked on the request.',
    advice: 'the service itself failed; its operator can see why',
  },
  'service-redirected': {
    remedy: 'retry',
    exit: 'protocol',
    means: 'The service, or something in between, sends the agent to another address.',
    advice: 'set service.url to the address where the service really is; a network with a login page also redirects',
  },

  ...wayErrors,

  // requests in the messaging form
  'reply-missing': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The service did not reply to a message.',
    advice: 'check the topics of [service.messaging], and that the service listens to that broker',
  },
  'activation-unanswered': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The service did not reply to the message that asks for activation.',
    advice:
      'check the topics of [service.messaging]; it is not asked again at once, as a second activation drops the first one’s key',
  },
  'too-many-requests': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'Too many messages wait for a reply of the service.',
    advice: 'wait until the service has answered others',
  },
  'message-too-large': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'A firmware, or a request, is larger than one message may be.',
    advice: 'set service.messaging.firmware_transport = "rest", or raise service.messaging.max_message',
  },

  // what the service says
  'reply-malformed': {
    remedy: 'retry',
    exit: 'protocol',
    means: 'The answer of the service cannot be understood.',
    advice: 'check that service.url names the right service',
  },
  'reply-too-large': {
    remedy: 'retry',
    exit: 'protocol',
    means: 'The answer of the service is larger than any such answer may be.',
    advice: 'check that service.url names the right service',
  },
  'reply-truncated': {
    remedy: 'retry',
    exit: 'protocol',
    means: 'The answer of the service ended too early.',
    advice: 'the reply was cut; try again',
  },
  'firmware-changed': sharedErrors['firmware-changed'],
  'id-unusable': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'An id is empty, or made of dots alone, and cannot be part of an address.',
    advice: 'give an id that is neither empty nor dots alone',
  },
  'value-unusable': sharedErrors['value-unusable'],
});

export type ServiceErrorCode = CodeOf<typeof ServiceErrors>;
