/** MQTT packets as a broker writes them, made by hand: MQTT 5.0, sections 2.1 and 3.3. */

export function packet(first: number, body: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([first, ...variableInteger(body.byteLength)]), body]);
}

export interface PublishSetup {
  readonly protocolVersion: 4 | 5;
  readonly topic: string;
  readonly content: Uint8Array;
  readonly qos?: 0 | 1 | 2;
  readonly retain?: boolean;
  /** With MQTT 5, as bytes. */
  readonly properties?: Uint8Array;
}

export function publishPacket(setup: PublishSetup): Buffer {
  const { protocolVersion, topic, content, qos = 1, retain = false, properties = new Uint8Array() } = setup;
  const parts = [lengthPrefixed(topic)];
  if (qos > 0) parts.push(Buffer.from([0, 7]));
  if (protocolVersion === 5) parts.push(Buffer.from(variableInteger(properties.byteLength)), Buffer.from(properties));
  return packet(0x30 | (qos << 1) | (retain ? 1 : 0), Buffer.concat([...parts, content]));
}

export function correlationProperty(text: string): Buffer {
  return Buffer.concat([Buffer.from([0x09]), lengthPrefixed(text)]);
}

function lengthPrefixed(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from([bytes.byteLength >> 8, bytes.byteLength & 0xff]), bytes]);
}

function variableInteger(value: number): number[] {
  const digits: number[] = [];
  for (let rest = value; digits.length === 0 || rest > 0; rest = Math.floor(rest / 128)) digits.push(rest % 128);
  return digits.map((digit, index) => (index < digits.length - 1 ? digit + 128 : digit));
}
