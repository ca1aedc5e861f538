import { expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';

const healthy = image('healthy');
const release = await artifact('v1', healthy);

// goosebit#415, rauc-hawkbit-updater PR#205, hawkbit#446: a server that believed an old version for good.
test('a service that was restored from a backup learns again which version runs', async () => {
  const versions = [{ id: 'v0' }, { id: 'v1', firmware: bufferContent(release) }];
  await using service = await startStandIn({ versions, currentVersionId: 'v0', targetVersionId: 'v1' });
  const options = { serviceUrl: service.url, image: healthy, slotBytes: 1024 * 1024, trustedKey: releaseKey.publicPem };
  await using gateway = await FileGateway.create(options);
  await gateway.run('--update-now');
  gateway.boot();
  await gateway.run('--update-now');
  expect(service.world.things).toMatchObject([{ currentVersionId: 'v1' }]);

  service.world.forget();
  expect((await gateway.run('--update-now')).stdout).toContain('Nothing to do: v1 is installed.');
  expect(service.world.things).toMatchObject([{ currentVersionId: 'v1' }]);

  for (const thing of service.world.things) thing.currentVersionId = 'v0';
  await gateway.run('--update-now');
  expect(service.world.things).toMatchObject([{ currentVersionId: 'v1' }]);
});
