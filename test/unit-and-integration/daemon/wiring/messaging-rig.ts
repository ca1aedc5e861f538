import { readFile } from 'node:fs/promises';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { MessagingSide } from '../../../fakes/service/messaging.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { buildArtifact } from '../../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { Mosquitto } from '../../service/messaging/mosquitto.ts';
import { Authority } from '../../service/rest/certificates.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
export const IMAGE_BYTES = 300_000;

export function image(text: string): Buffer {
  return Buffer.alloc(IMAGE_BYTES, `${text}\n`, 'latin1');
}

async function artifact(name: string, content: Buffer): Promise<Buffer> {
  const files = [{ name: 'rootfs.ext4', content }];
  return buildArtifact({ name, devices: ['demo-gateway'], files, key: keys.privateKey });
}

/** The current version of a new thing: a version from before the agent. */
const versions = [
  { id: 'v0' },
  { id: 'v1', firmware: bufferContent(await artifact('v1', image('healthy 1'))) },
  { id: 'v2', firmware: bufferContent(await artifact('v2', image('healthy 2'))) },
];

export type Form = 'rest' | 'messaging';

/** The minimal rights of a gateway. */
const rules = `
user service
topic readwrite #

user gateway
topic write v1.json
topic write v1.a1b2.json
topic read v1.a1b2.reply.json
topic write gateway/status
topic read gateway/wake
`;
export const passwords = { service: 'for the service', gateway: 'sesame' };

export interface FormOptions {
  /** Port of a proxy in front of the broker. */
  readonly brokerPort?: number;
  /** Lines of `[service.messaging]`. */
  readonly messagingToml?: string;
  readonly splay?: string;
}

/** A gateway in a folder, a broker with TLS, passwords and rules, and a service that speaks both forms. */
export class MessagingGateway implements AsyncDisposable {
  readonly broker: Mosquitto;
  readonly service: StandIn;
  readonly side: MessagingSide;
  readonly gateway: FileGateway;
  readonly passwordFile: string;
  readonly #caFile: string;
  readonly #opened: AsyncDisposableStack;

  private constructor(
    rooms: Pick<MessagingGateway, 'broker' | 'service' | 'side' | 'gateway'>,
    files: BrokerFiles,
    opened: AsyncDisposableStack,
  ) {
    this.broker = rooms.broker;
    this.service = rooms.service;
    this.side = rooms.side;
    this.gateway = rooms.gateway;
    this.passwordFile = files.passwordFile;
    this.#caFile = files.caFile;
    this.#opened = opened;
  }

  static async create(form: Form, options: FormOptions = {}): Promise<MessagingGateway> {
    await using opened = new AsyncDisposableStack();
    const authority = opened.use(await Authority.create());
    const { caFile } = authority;
    const tls = { caFile, ...(await authority.issue('broker', 'IP:127.0.0.1')) };
    const files = { caFile, passwordFile: await authority.write('password', passwords.gateway) };
    const broker = opened.use(await Mosquitto.start({ persistence: true, tls, users: passwords, rules }));
    const service = opened.use(await startStandIn({ versions, targetVersionId: 'v1' }));
    const client = { username: 'service', password: passwords.service, ca: await readFile(caFile, 'utf8') };
    const side = opened.use(await MessagingSide.start(service.world, { url: broker.url, client }));
    const gateway = opened.use(
      await FileGateway.create(gatewayOptions(service.url, form, { brokerPort: broker.port, ...options }, files)),
    );
    return new MessagingGateway({ broker, service, side, gateway }, files, opened.move());
  }

  /** Replaces the configuration file without a notification. */
  async configure(form: Form, options: FormOptions = {}): Promise<void> {
    const files = { caFile: this.#caFile, passwordFile: this.passwordFile };
    await this.gateway.configure(
      gatewayOptions(this.service.url, form, { brokerPort: this.broker.port, ...options }, files),
    );
  }

  /** Checks, installs and reboots on request, as an operator does until the update is complete. */
  async updateToTheEnd(attempts: number): Promise<void> {
    const { world } = this.service;
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      await this.gateway.run('--update-now');
      if (this.gateway.rebootRequested) this.gateway.boot();
      if (world.things[0]?.currentVersionId === world.targetVersionId) return;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

interface BrokerFiles {
  readonly caFile: string;
  readonly passwordFile: string;
}

function gatewayOptions(
  serviceUrl: string,
  form: Form,
  options: FormOptions & { readonly brokerPort: number },
  { caFile, passwordFile }: BrokerFiles,
): FileGatewayOptions {
  return {
    serviceUrl,
    image: image('healthy 0'),
    slotBytes: 2_000_000,
    trustedKey: keys.publicPem,
    serviceToml: `transport = "${form}"`,
    extraToml: `
[service.messaging]
url = "mqtts://127.0.0.1:${options.brokerPort}"
username = "gateway"
password_file = "${passwordFile}"
ca_file = "${caFile}"
topic_id = "a1b2"
${options.messagingToml ?? ''}
`,
    updateToml: 'schedule = "0 3 1 1 *"',
    splay: options.splay ?? '0s',
    // enough to create a new broker on a busy machine
    healthDeadline: '2m',
  };
}
