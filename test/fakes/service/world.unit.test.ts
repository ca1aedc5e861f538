import { expect, test } from 'vitest';

import { World } from './world.ts';

test('a thing that the service knows is the same one when it activates again', () => {
  const world = new World();
  world.know({
    thingId: 'thing-1',
    serialNumber: 'GW-0001',
    apiKey: 'old',
    activations: 1,
    currentVersionId: 'v1',
    properties: new Map(),
    datapoints: new Map(),
  });
  expect(world.activate('GW-0001')).toMatchObject({ thingId: 'thing-1', activations: 2 });
  expect(world.activate('GW-0002').thingId).toBe('thing-2');
  expect(world.things).toHaveLength(2);
});
