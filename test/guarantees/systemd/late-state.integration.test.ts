import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { NspawnGateway } from '../../fakes/machine/booting/nspawn-gateway.ts';
import { bootloaderBlock } from '../../unit-and-integration/slots/bootloaders/bootloader-pages.ts';
import { GatewayRig } from './gateway-rig.ts';
import { newDirectory, run } from './installed-root.ts';

const STATE = '/var/lib/thing-agent';
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

describe('a gateway whose /var is in memory, and whose state partition is mounted after the agent was started', () => {
  let rig: GatewayRig;
  let gateway: NspawnGateway;

  beforeAll(async () => {
    rig = await GatewayRig.open();
    gateway = await rig.gateway();
  });
  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
    await rig[Symbol.asyncDispose]();
  });

  // Regression: the agent staged and armed from memory.
  test('installs nothing before, and then continues in the same process with the state it finds', async () => {
    await gateway.tell('sh', '-c', `mkdir /run/kept && mount --bind ${STATE} /run/kept`);
    await gateway.tell('sh', '-c', `systemctl stop thing-agent && umount ${STATE} && systemctl start thing-agent`);
    await gateway.console.until(/the state directory cannot be used, so nothing is installed: .*is in memory/);
    await rig.offer('v1');
    expect(await gateway.exec(['agent', '--update-now'])).toMatchObject({
      exitCode: 74,
      stderr: matching(/is\s+in memory/),
    });
    expect(await gateway.exec(['agent', 'doctor'])).toMatchObject({ stdout: matching(/FAIL +state directory/) });
    await gateway.tell('mount', '--bind', '/run/kept', STATE);
    expect(await gateway.exec(['agent', '--update-now'])).toMatchObject({
      stdout: matching(/v1 is staged in slot B; the gateway is rebooting into it/),
    });
    await gateway.console.until(/v1 is installed/);
    expect(gateway.boots).toEqual(['A', 'B']);
  });
});

/** The mount unit that systemd generates from the page's line. Reading it needs no gateway. */
describe('the mount of the page for integrators', () => {
  // Regression: on a slow machine /boot stayed unmounted, and the agent could commit no trial.
  test.each([
    ['state', STATE, String.raw`var-lib-thing\x2dagent.mount`],
    ['boot', '/boot', 'boot.mount'],
  ])('of %s is tried at boot, and again when its device appears later', async (name, where, mount) => {
    const line = bootloaderBlock(`fstab ${name}`);
    const directory = await newDirectory();
    try {
      const places = ['normal', 'early', 'late'].map((name) => join(directory, name));
      for (const place of places) await mkdir(place);
      await writeFile(join(directory, 'fstab'), line);
      const fstab = `SYSTEMD_FSTAB=${join(directory, 'fstab')}`;
      await run('env', fstab, '/usr/lib/systemd/system-generators/systemd-fstab-generator', ...places);
      for (const wanting of ['local-fs.target', String.raw`dev-disk-by\x2dpartlabel-${name}.device`]) {
        const link = join(directory, 'normal', `${wanting}.wants`, mount);
        expect(await readFile(link, 'utf8')).toContain(`What=/dev/disk/by-partlabel/${name}\nWhere=${where}\n`);
      }
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
