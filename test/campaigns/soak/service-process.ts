import { randomBytes } from 'node:crypto';
import process from 'node:process';

import type { FaultRule } from '../../fakes/service/faults.ts';
import { bufferContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import { buildArtifact } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';

/** The stand-in of the service in a process of its own, so that what it keeps is not the agent's. */
export type Order =
  | { readonly kind: 'offer'; readonly id: string; readonly content: ImageContent; readonly signed: boolean }
  /** The owner withdraws the target: the running version stays. */
  | { readonly kind: 'withdraw' }
  | { readonly kind: 'fail'; readonly rule: FaultRule }
  | { readonly kind: 'clear-faults' };

/** First word of the image: whether its application works, or whether it boots at all. */
export type ImageContent = 'healthy' | 'unhealthy' | 'dead';

export type Answer =
  | { readonly kind: 'ready'; readonly url: string; readonly publicPem: string }
  | { readonly kind: 'done' };

export const DEVICE_TYPE = 'soak-gateway';
const IMAGE_BYTES = 48 * 1024;

async function serve(): Promise<void> {
  const keys = makeKeyPair('ecdsa-p256', 'release.pem');
  const service = await startStandIn({ versions: [{ id: 'factory' }], currentVersionId: 'factory' });
  const { world } = service;

  const obey = async (order: Order): Promise<void> => {
    service.calls.length = 0;
    switch (order.kind) {
      case 'offer': {
        const content = Buffer.concat([Buffer.from(`${order.content} ${order.id}\n`), randomBytes(IMAGE_BYTES)]);
        const files = [{ name: 'rootfs.ext4', content }];
        const key = order.signed ? keys.privateKey : undefined;
        const artifact = await buildArtifact({ name: order.id, devices: [DEVICE_TYPE], files, key });
        world.addVersion({ id: order.id, firmware: bufferContent(artifact) });
        world.targetVersionId = order.id;
        return;
      }
      case 'withdraw':
        world.targetVersionId = undefined;
        return;
      case 'fail':
        service.fail(order.rule);
        return;
      case 'clear-faults':
        service.clearFaults();
    }
  };

  const answer = (message: Answer): void => void process.send?.(message);
  process.on('message', (order: Order) => {
    obey(order).then(
      () => answer({ kind: 'done' }),
      (error: unknown) => {
        throw error;
      },
    );
  });
  process.on('disconnect', () => process.exit());
  answer({ kind: 'ready', url: service.url, publicPem: keys.publicPem });
}

if (process.send !== undefined) await serve();
