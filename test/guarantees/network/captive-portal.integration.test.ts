import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { artifact, image, releaseKey } from '../../fakes/machine/demo-firmware.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { untilTestEnds } from '../../until-test-ends.ts';

const healthy = image('healthy');
const release = await artifact('v1', healthy);

const portal = { kind: 'page' } as const;
const PORTAL = 'a captive portal may be answering';

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const versions = [{ id: 'v0' }, { id: 'v1', firmware: bufferContent(release) }];
  service = untilTestEnds(await startStandIn({ versions, currentVersionId: 'v0', targetVersionId: 'v1' }));
  gateway = untilTestEnds(
    await FileGateway.create({
      serviceUrl: service.url,
      image: healthy,
      slotBytes: 1024 * 1024,
      trustedKey: releaseKey.publicPem,
    }),
  );
});

function thing(): StandIn['world']['things'][number] | undefined {
  return service.world.things[0];
}

test('a switch and a report that a captive portal answered are sent again', async () => {
  await gateway.run('--update-now');
  gateway.boot();
  service.fail({ operation: 'switchTo', fault: portal, times: 'always' });
  service.fail({ operation: 'setProperty', fault: portal, times: 'always' });
  expect((await gateway.run('--update-now')).stdout).toContain('Done: v1 is installed.');
  expect(thing()).toMatchObject({ currentVersionId: 'v0' });
  service.clearFaults();
  await gateway.run('--update-now');
  expect(thing()).toMatchObject({ currentVersionId: 'v1' });
  expect(thing()?.properties.get('update_outcome')).toMatchObject({ outcome: 'installed' });
});

test('a command fails behind a captive portal and reports it', async () => {
  await gateway.run('activate');
  service.fail({ fault: portal, times: 'always' });
  for (const command of ['property get p', 'property set p 6', 'check', '--update-now']) {
    const { exitCode, stdout, stderr } = await gateway.run(...command.split(' '));
    expect([command, exitCode, `${stdout}${stderr}`]).toEqual([command, 69, expect.stringContaining(PORTAL)]);
  }
  expect((await gateway.run('doctor')).stdout).toContain(PORTAL);
  service.clearFaults();
  expect(thing()?.properties.has('p')).toBe(false);
});

test('each datapoint arrives once after a captive portal, and a watched property keeps its value', async () => {
  const limits = join(gateway.directory, 'limits');
  await gateway.configure({
    serviceUrl: service.url,
    image: healthy,
    slotBytes: 1024 * 1024,
    trustedKey: releaseKey.publicPem,
    updateToml: 'follow = "none"',
    extraToml: `[[watch]]\nid = "limits"\nevery = "1s"\noutput = { kind = "file", path = "${limits}" }`,
  });
  await gateway.run('activate');
  thing()?.properties.set('limits', { max: 80 });
  await gateway.startDaemon();
  await expect.poll(async () => readFile(limits, 'utf8').catch(() => '')).toBe('{"max":80}\n');

  service.fail({ fault: portal, times: 'always' });
  const met = [service.nextCall('property'), service.nextCall('postDatapoints'), service.nextCall('setProperty')];
  for (const event of ['a', 'b', 'c']) await gateway.run('datapoint', 'send', event, '1');
  await gateway.run('property', 'set', 'p', '6');
  await Promise.all(met);
  await expect.poll(async () => (await gateway.run('status')).stdout).toContain(PORTAL);
  expect(await readFile(limits, 'utf8')).toBe('{"max":80}\n');

  service.clearFaults();
  const counts = (): unknown =>
    Object.fromEntries([...(thing()?.datapoints ?? [])].map(([event, all]) => [event, all.length]));
  await expect.poll(() => counts()).toEqual({ a: 1, b: 1, c: 1 });
  await expect.poll(() => thing()?.properties.get('p')).toBe(6);
});
