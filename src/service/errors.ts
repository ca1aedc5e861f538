import { AgentError } from '../system/errors.ts';
import type { ExitKind, Remedy } from '../system/errors.ts';

interface Meaning {
  readonly remedy: Remedy;
  readonly exit: ExitKind;
  readonly advice: string;
}

/**
 * What each code means to a caller. `give-up` only where the service judged this very request, or where something on
 * this gateway is wrong; whatever the network, the certificates or the service may cure by themselves is `retry`.
 */
const meanings = {
  // the key
  'key-rejected': {
    remedy: 'retry',
    exit: 'refused',
    advice: 'the agent activates again by itself; if this stays, look at the thing and its rights at the service',
  },
  'key-required': {
    remedy: 'give-up',
    exit: 'refused',
    advice: 'set service.key_on_provisioning = true',
  },
  'activation-refused': {
    remedy: 'retry',
    exit: 'refused',
    advice: 'check device.serial_number, and that the service knows and permits it',
  },
  'serial-number-shared': {
    remedy: 'retry',
    exit: 'refused',
    advice: 'find the other device with this serial number, or give this one its own (device.serial_number)',
  },

  // statuses
  'service-not-found': {
    remedy: 'give-up',
    exit: 'failed',
    advice: 'check service.url and the id; if the thing was deleted at the service, `agent activate` makes it again',
  },
  'service-conflict': { remedy: 'retry', exit: 'tryAgain', advice: 'look at the state of the thing at the service' },
  'service-too-large': { remedy: 'give-up', exit: 'failed', advice: 'send less at once' },
  'service-rate-limited': { remedy: 'retry', exit: 'tryAgain', advice: 'wait; the service asks for fewer calls' },
  'service-request-timeout': { remedy: 'retry', exit: 'tryAgain', advice: 'the link is slow; try again' },
  'service-rejected': {
    remedy: 'give-up',
    exit: 'failed',
    advice: 'compare the request with what the service accepts',
  },
  'service-unavailable': { remedy: 'retry', exit: 'tryAgain', advice: 'wait; the service is down for a while' },
  'service-failed': {
    remedy: 'retry',
    exit: 'tryAgain',
    advice: 'the service itself failed; its operator can see why',
  },
  'service-redirected': {
    remedy: 'retry',
    exit: 'protocol',
    advice: 'set service.url to the address where the service really is; a network with a login page also redirects',
  },

  // the way to the service
  'connection-refused': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'check service.url and that the service runs',
  },
  'connection-reset': { remedy: 'retry', exit: 'unreachable', advice: 'the link was cut; try again' },
  'connection-failed': { remedy: 'retry', exit: 'unreachable', advice: 'check the network of this gateway' },
  'name-unresolved': { remedy: 'retry', exit: 'unreachable', advice: 'check service.url, the network and its DNS' },
  'silent-connect': { remedy: 'retry', exit: 'unreachable', advice: 'check the network and its firewalls' },
  'silent-first-byte': { remedy: 'retry', exit: 'unreachable', advice: 'the service is busy or hangs; try again' },
  'silent-idle': { remedy: 'retry', exit: 'unreachable', advice: 'the link or the service hangs; try again' },
  'silent-whole': { remedy: 'retry', exit: 'unreachable', advice: 'the link is too slow for the deadline' },

  // TLS
  'tls-unknown-ca': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'set service.ca_file to the authority that issued the service’s certificate',
  },
  'tls-wrong-host': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'set service.url to the host that the certificate names',
  },
  'tls-expired': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'the service’s operator must renew the certificate; check the clock of this gateway too',
  },
  'clock-wrong': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'set the clock of this gateway (timedatectl), or let it reach a time server',
  },
  'tls-client-certificate': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'check service.client_certificate_file and service.client_key_file',
  },
  'tls-failed': { remedy: 'retry', exit: 'unreachable', advice: 'check that service.url names a TLS server' },
  'tls-files': {
    remedy: 'give-up',
    exit: 'configuration',
    advice: 'check service.ca_file, service.client_certificate_file and service.client_key_file',
  },

  // the proxy
  'proxy-unreachable': { remedy: 'retry', exit: 'unreachable', advice: 'check HTTPS_PROXY, HTTP_PROXY and NO_PROXY' },
  'proxy-refused': { remedy: 'retry', exit: 'unreachable', advice: 'the proxy does not let the agent through' },
  'proxy-authentication': {
    remedy: 'give-up',
    exit: 'configuration',
    advice: 'put a valid user name and password into HTTPS_PROXY or HTTP_PROXY',
  },
  'proxy-invalid': {
    remedy: 'give-up',
    exit: 'configuration',
    advice: 'write HTTPS_PROXY or HTTP_PROXY as http://host:port or https://host:port',
  },

  // the broker of the messaging form
  'broker-refused': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'check service.messaging.url and that the broker runs',
  },
  'broker-unreachable': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'check service.messaging.url, the network and its DNS',
  },
  'broker-lost': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'the agent connects again by itself; if this stays, look at the link and at the broker’s log',
  },
  'broker-silent': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'the link or the broker hangs; the agent connects again by itself',
  },
  'broker-unavailable': { remedy: 'retry', exit: 'tryAgain', advice: 'wait; the broker is down or busy for a while' },
  'broker-not-authorized': {
    remedy: 'retry',
    exit: 'refused',
    advice: 'check username, password_file and the client certificate in [service.messaging], and the broker’s rules',
  },
  'broker-session-taken': {
    remedy: 'retry',
    exit: 'refused',
    advice: 'find the other client with this client id, or set service.messaging.client_id',
  },
  'broker-unsuitable': {
    remedy: 'retry',
    exit: 'protocol',
    advice: 'check protocol_version and client_id in [service.messaging], and that url names an MQTT broker',
  },
  'broker-password': {
    remedy: 'give-up',
    exit: 'configuration',
    advice: 'check service.messaging.password_file',
  },

  // requests in the messaging form
  'reply-missing': {
    remedy: 'retry',
    exit: 'unreachable',
    advice: 'check the topics of [service.messaging], and that the service listens to that broker',
  },
  'activation-unanswered': {
    remedy: 'retry',
    exit: 'unreachable',
    advice:
      'check the topics of [service.messaging]; it is not asked again at once, as a second activation drops the first one’s key',
  },
  'too-many-requests': { remedy: 'retry', exit: 'tryAgain', advice: 'wait until the service has answered others' },
  'message-too-large': {
    remedy: 'give-up',
    exit: 'refused',
    advice: 'set service.messaging.firmware_transport = "rest", or raise service.messaging.max_message',
  },

  // what the service says
  'reply-malformed': { remedy: 'retry', exit: 'protocol', advice: 'check that service.url names the right service' },
  'reply-too-large': { remedy: 'retry', exit: 'protocol', advice: 'check that service.url names the right service' },
  'reply-truncated': { remedy: 'retry', exit: 'protocol', advice: 'the reply was cut; try again' },
  'firmware-changed': {
    remedy: 'retry',
    exit: 'tryAgain',
    advice: 'the firmware changed at the service while it was read; it is read again from the start',
  },

  // what we were asked to say
  'id-unusable': { remedy: 'give-up', exit: 'usage', advice: 'give an id that is neither empty nor dots alone' },
  'value-unusable': { remedy: 'give-up', exit: 'usage', advice: 'give a value that JSON can express' },
} as const satisfies Readonly<Record<string, Meaning>>;

export type ServiceErrorCode = keyof typeof meanings;

export const serviceErrorCodes: readonly string[] = Object.keys(meanings);

export interface ServiceFailure {
  readonly code: ServiceErrorCode;
  /** What happened, without the operation: "things.example.com:443 refused the connection". */
  readonly why: string;
  /** What was being done: "target version". */
  readonly operation?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Instead of what the code advises. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
}

/** Anything that goes wrong between this gateway and the provisioning service, in either form. */
export class ServiceError extends AgentError {
  override readonly name = 'ServiceError';
  declare readonly code: ServiceErrorCode;
  readonly #failure: ServiceFailure;

  constructor(failure: ServiceFailure) {
    const { code, why, operation, retryAfterMs, cause } = failure;
    const message = operation === undefined ? why : `${operation}: ${why}`;
    const meaning = meanings[code];
    super({ code, message, ...meaning, advice: failure.advice ?? meaning.advice, retryAfterMs, cause });
    this.#failure = failure;
  }

  /** The same failure, named after what was being done when it struck. */
  during(operation: string): ServiceError {
    return new ServiceError({ ...this.#failure, operation });
  }
}
