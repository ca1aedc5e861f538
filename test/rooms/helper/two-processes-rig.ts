import type { ChildProcess } from 'node:child_process';
import process from 'node:process';

import { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import { versionsOf } from '../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';

/** `nobody`; without the rights of root both processes have those of the test. */
export const agentUser = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const stranger = makeKeyPair('ecdsa-p256', 'stranger.pem');

function image(text: string): Buffer {
  return Buffer.alloc(300_000, `${text}\n`, 'latin1');
}

async function artifact(name: string, content: Buffer, key = keys.privateKey, provides = {}): Promise<Buffer> {
  return buildArtifact({ name, devices: ['demo-gateway'], files: [{ name: 'rootfs.ext4', content }], key, provides });
}

export const firmware = {
  v1: await artifact('v1', image('healthy 1')),
  v2: await artifact('v2', image('healthy 2')),
  safe: await artifact('safe', image('healthy 3'), keys.privateKey, { security_version: '3' }),
  bad: await artifact('bad', image('unhealthy')),
  foreign: await artifact('foreign', image('healthy f'), stranger.privateKey),
};

/** A gateway of two processes, whose helper runs. */
export class TwoProcesses implements AsyncDisposable {
  readonly service: StandIn;
  readonly gateway: FileGateway;
  readonly helper: ChildProcess;
  readonly #opened: AsyncDisposableStack;

  private constructor(service: StandIn, gateway: FileGateway, helper: ChildProcess, opened: AsyncDisposableStack) {
    this.service = service;
    this.gateway = gateway;
    this.helper = helper;
    this.#opened = opened;
  }

  static async create(): Promise<TwoProcesses> {
    await using opened = new AsyncDisposableStack();
    const versions = versionsOf(firmware);
    const service = opened.use(await startStandIn({ versions, currentVersionId: 'v1' }));
    const gateway = opened.use(
      await FileGateway.create({
        serviceUrl: service.url,
        image: image('healthy 0'),
        slotBytes: 400_000,
        trustedKey: keys.publicPem,
        agentUser,
      }),
    );
    return new TwoProcesses(service, gateway, await gateway.startHelper(), opened.move());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}
