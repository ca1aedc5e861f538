/** Why a connection to a broker ended, beside what the socket fails with. Each room makes its own error of it. */

/** The broker does not keep to MQTT, or sends what no broker sends. */
export class BrokenPacket extends Error {}

/** What completes "the broker …", with the reason code of CONNACK or DISCONNECT: MQTT 5.0, section 2.4; 3.1.1, section 3.2.2.3. */
export class RefusedByBroker extends Error {
  readonly reason: number;

  constructor(what: string, reason: number) {
    super(what);
    this.reason = reason;
  }
}

/** It answered no ping. */
export class SilentBroker extends Error {
  override readonly message = 'the broker does not answer any more';
}

export class ConnectionLost extends Error {
  override readonly message = 'the connection was lost';
}
