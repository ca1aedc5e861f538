import { afterAll, beforeAll } from 'vitest';

import { MessagingSide } from '../../../fakes/service/messaging.ts';
import { World } from '../../../fakes/service/world.ts';
import { prepareWorld, serviceTransportContract } from '../transport-contract.ts';
import type { TransportRig } from '../transport-contract.ts';
import { messagingRig } from './messaging-rig.ts';
import { Mosquitto } from './mosquitto.ts';

let broker: Mosquitto;

beforeAll(async () => {
  broker = await Mosquitto.start();
});
afterAll(async () => {
  await broker[Symbol.asyncDispose]();
});

async function open(protocolVersion: 4 | 5): Promise<TransportRig> {
  const world = prepareWorld(new World());
  const service = await MessagingSide.start(world, { url: broker.url, client: { protocolVersion } });
  const rig = messagingRig(broker.url, { protocolVersion });
  return {
    transport: rig.transport,
    world,
    [Symbol.asyncDispose]: async () => {
      await rig[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
    },
  };
}

serviceTransportContract('provisioning in messaging form, MQTT 5', async () => open(5));
serviceTransportContract('provisioning in messaging form, MQTT 3.1.1', async () => open(4));
