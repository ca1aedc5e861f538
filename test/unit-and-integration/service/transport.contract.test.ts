import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandInOptions } from '../../fakes/service/stand-in.ts';
import { World } from '../../fakes/service/world.ts';
import { FakeTransport } from './fake-transport.ts';
import { restRig } from './rest/rest-rig.ts';
import { prepareWorld, serviceTransportContract, valueTransportContract } from './transport-contract.ts';
import type { ValueRig } from './transport-contract.ts';

async function openFake(): Promise<ValueRig> {
  const world = prepareWorld(new World());
  return { world, transport: new FakeTransport(world), [Symbol.asyncDispose]: async () => {} };
}

async function openRest(options: StandInOptions = {}): Promise<ValueRig> {
  const service = await startStandIn(options);
  const { transport } = restRig(service.url);
  return {
    transport,
    world: prepareWorld(service.world),
    [Symbol.asyncDispose]: async () => {
      await transport[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
    },
  };
}

serviceTransportContract('provisioning without a network', openFake);
serviceTransportContract('provisioning in REST form', openRest);
serviceTransportContract('provisioning in REST form, with the key everywhere', async () =>
  openRest({ keyRequired: 'everything' }),
);
serviceTransportContract('provisioning in REST form, below a path and without ranges', async () =>
  openRest({ basePath: '/api/iot', ranges: false, contentLength: false }),
);
valueTransportContract('values without a network', openFake);
valueTransportContract('values in REST form', openRest);
