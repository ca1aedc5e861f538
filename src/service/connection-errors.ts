import { permanent, transient } from '../system/define-errors.ts';

/** Everything that can go wrong on the way to the service: the line, TLS, a proxy, the broker of the messaging form. */
export const connectionErrors = {
  // the way to the service
  'connection-refused': transient.unreachable(
    'Nothing listens at the address of the service.',
    'check service.url and that the service runs',
  ),
  'connection-reset': transient.unreachable(
    'The connection to the service was interrupted.',
    'the connection was interrupted; try again',
  ),
  'connection-failed': transient.unreachable(
    'The connection to the service failed.',
    'check the network of this gateway',
  ),
  'name-unresolved': transient.unreachable(
    'The name of the service’s host cannot be resolved.',
    'check service.url, the network and its DNS',
  ),
  'connect-timeout': transient.unreachable(
    'Connecting to the service timed out.',
    'check the network and its firewalls',
  ),
  'first-byte-timeout': transient.unreachable(
    'The service accepted the request but did not start to respond in time.',
    'the service is busy or hangs; try again',
  ),
  'idle-timeout': transient.unreachable(
    'The service stopped sending in the middle of its response.',
    'the connection or the service hangs; try again',
  ),
  'total-timeout': transient.unreachable(
    'The response of the service was not complete before the deadline of the request.',
    'raise the limit in [service.timeouts], or use a faster connection',
  ),

  // TLS
  'tls-unknown-ca': transient.unreachable(
    'The certificate of the service is issued by an authority that this gateway does not trust.',
    'set service.ca_file to the authority that issued the service’s certificate; the system’s are not read:' +
      ' "/etc/ssl/certs/ca-certificates.crt" there takes them',
  ),
  'tls-wrong-host': transient.unreachable(
    'The certificate of the service is for another host.',
    'set service.url to the host that the certificate names',
  ),
  'tls-expired': transient.unreachable(
    'The certificate of the service is not valid now.',
    'the service’s operator must renew the certificate; check the clock of this gateway too',
  ),
  'clock-wrong': transient.unreachable(
    'The clock of this gateway is too wrong to check certificates.',
    'set the clock of this gateway (timedatectl), or let it reach a time server',
  ),
  'tls-client-certificate': transient.unreachable(
    'The service does not accept this gateway’s client certificate.',
    'check service.client_certificate_file and service.client_key_file',
  ),
  'tls-failed': transient.unreachable(
    'A TLS connection to the service could not be established.',
    'check that service.url names a TLS server',
  ),
  'tls-files-invalid': permanent.configuration(
    'A certificate or key that the configuration names cannot be used.',
    'check service.ca_file, service.client_certificate_file and service.client_key_file',
  ),

  // the proxy
  'proxy-unreachable': transient.unreachable(
    'The proxy cannot be reached.',
    'check HTTPS_PROXY, HTTP_PROXY and NO_PROXY in the daemon’s environment: systemctl edit thing-agent',
  ),
  'proxy-refused': transient.unreachable(
    'The proxy refuses to connect to the service.',
    'permit connections to the service at the proxy',
  ),
  'proxy-authentication': permanent.configuration(
    'The proxy requires a user name and password.',
    'put a valid user name and password into HTTPS_PROXY or HTTP_PROXY',
  ),
  'proxy-invalid': permanent.configuration(
    'The address of the proxy cannot be used.',
    'write HTTPS_PROXY or HTTP_PROXY as http://host:port or https://host:port',
  ),

  // the broker of the messaging form
  'broker-refused': transient.unreachable(
    'Nothing listens at the address of the broker.',
    'check service.messaging.url and that the broker runs',
  ),
  'broker-unreachable': transient.unreachable(
    'The broker cannot be reached.',
    'check service.messaging.url, the network and its DNS',
  ),
  'broker-lost': transient.unreachable(
    'The connection to the broker ended.',
    'the agent reconnects automatically; if this persists, check the connection and the broker’s log',
  ),
  'broker-timeout': transient.unreachable(
    'The broker is not responding.',
    'the connection or the broker hangs; the agent reconnects automatically',
  ),
  'broker-unavailable': transient.tryAgain(
    'The broker reports that it is down or busy.',
    'wait; the broker is down or busy for a while',
  ),
  'broker-not-authorized': transient.refused(
    'The broker denies this gateway access, or a topic that it needs.',
    'check username, password_file and the client certificate in [service.messaging], and the broker’s rules',
  ),
  'broker-session-taken': transient.refused(
    'Another client connected to the broker with the same client id.',
    'find the other client with this client id, or set service.messaging.client_id',
  ),
  'broker-unsupported': transient.protocol(
    'The broker does not speak the protocol as this gateway needs it.',
    'check protocol_version and client_id in [service.messaging], and that url names an MQTT broker',
  ),
  'broker-password': permanent.configuration(
    'The file with the password for the broker cannot be used.',
    'check service.messaging.password_file',
  ),
};
