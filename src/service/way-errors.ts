import type { ErrorMeaning } from '../system/define-errors.ts';

/** Everything that can go wrong on the way to the service: the line, TLS, a proxy, the broker of the messaging form. */
export const wayErrors = {
  // the way to the service
  'connection-refused': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'Nothing listens at the address of the service.',
    advice: 'check service.url and that the service runs',
  },
  'connection-reset': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The connection to the service was cut.',
    advice: 'the link was cut; try again',
  },
  'connection-failed': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The connection to the service failed.',
    advice: 'check the network of this gateway',
  },
  'name-unresolved': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The name of the service’s host cannot be resolved.',
    advice: 'check service.url, the network and its DNS',
  },
  'silent-connect': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'No connection to the service came about in time.',
    advice: 'check the network and its firewalls',
  },
  'silent-first-byte': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The service took the request and did not begin to answer in time.',
    advice: 'the service is busy or hangs; try again',
  },
  'silent-idle': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The service fell silent in the middle of its answer.',
    advice: 'the link or the service hangs; try again',
  },
  'silent-whole': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The answer of the service was not complete within the time that a whole request may take.',
    advice: 'the link is too slow for the deadline',
  },

  // TLS
  'tls-unknown-ca': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The certificate of the service is issued by an authority that this gateway does not trust.',
    advice: 'set service.ca_file to the authority that issued the service’s certificate',
  },
  'tls-wrong-host': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The certificate of the service is for another host.',
    advice: 'set service.url to the host that the certificate names',
  },
  'tls-expired': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The certificate of the service is not valid now.',
    advice: 'the service’s operator must renew the certificate; check the clock of this gateway too',
  },
  'clock-wrong': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The clock of this gateway is so wrong that certificates cannot be judged.',
    advice: 'set the clock of this gateway (timedatectl), or let it reach a time server',
  },
  'tls-client-certificate': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The service does not accept this gateway’s client certificate.',
    advice: 'check service.client_certificate_file and service.client_key_file',
  },
  'tls-failed': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'A protected connection to the service did not come about.',
    advice: 'check that service.url names a TLS server',
  },
  'tls-files': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'A certificate or key that the configuration names cannot be used.',
    advice: 'check service.ca_file, service.client_certificate_file and service.client_key_file',
  },

  // the proxy
  'proxy-unreachable': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The proxy cannot be reached.',
    advice: 'check HTTPS_PROXY, HTTP_PROXY and NO_PROXY',
  },
  'proxy-refused': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The proxy refuses to connect to the service.',
    advice: 'the proxy does not let the agent through',
  },
  'proxy-authentication': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The proxy wants a user name and password.',
    advice: 'put a valid user name and password into HTTPS_PROXY or HTTP_PROXY',
  },
  'proxy-invalid': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The address of the proxy cannot be used.',
    advice: 'write HTTPS_PROXY or HTTP_PROXY as http://host:port or https://host:port',
  },

  // the broker of the messaging form
  'broker-refused': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'Nothing listens at the address of the broker.',
    advice: 'check service.messaging.url and that the broker runs',
  },
  'broker-unreachable': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The broker cannot be reached.',
    advice: 'check service.messaging.url, the network and its DNS',
  },
  'broker-lost': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The connection to the broker ended.',
    advice: 'the agent connects again by itself; if this stays, look at the link and at the broker’s log',
  },
  'broker-silent': {
    remedy: 'retry',
    exit: 'unreachable',
    means: 'The broker does not answer.',
    advice: 'the link or the broker hangs; the agent connects again by itself',
  },
  'broker-unavailable': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'The broker says that it is down or busy.',
    advice: 'wait; the broker is down or busy for a while',
  },
  'broker-not-authorized': {
    remedy: 'retry',
    exit: 'refused',
    means: 'The broker does not let this gateway in, or not to a topic that it needs.',
    advice: 'check username, password_file and the client certificate in [service.messaging], and the broker’s rules',
  },
  'broker-session-taken': {
    remedy: 'retry',
    exit: 'refused',
    means: 'Another client connected to the broker with the same client id.',
    advice: 'find the other client with this client id, or set service.messaging.client_id',
  },
  'broker-unsuitable': {
    remedy: 'retry',
    exit: 'protocol',
    means: 'The broker does not speak the protocol as this gateway needs it.',
    advice: 'check protocol_version and client_id in [service.messaging], and that url names an MQTT broker',
  },
  'broker-password': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'The file with the password for the broker cannot be used.',
    advice: 'check service.messaging.password_file',
  },
} as const satisfies Readonly<Record<string, ErrorMeaning>>;
