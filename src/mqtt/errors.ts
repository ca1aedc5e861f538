/**
 * The reasons for which a connection to a broker ends, besides the errors of the socket. Each module translates them into
 * its own errors.
 */

/** The broker breaks the rules of MQTT, or sends something that no broker sends. */
export class MalformedPacketError extends Error {}

/**
 * The broker refuses. The message completes "the broker …", with the reason code of CONNACK or DISCONNECT: MQTT 5.0,
 * section 2.4; 3.1.1, section 3.2.2.3.
 */
export class BrokerRefusedError extends Error {
  readonly reason: number;

  constructor(what: string, reason: number) {
    super(what);
    this.reason = reason;
  }
}

/** The broker answered no ping. */
export class BrokerTimeoutError extends Error {
  override readonly message = 'the broker is not responding';
}

export class ConnectionLostError extends Error {
  override readonly message = 'the connection was lost';
}

/** The file with our password cannot be read. */
export class PasswordError extends Error {}
