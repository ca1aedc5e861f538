import { describe, expect, test } from 'vitest';

import { firmwareOpener } from '../../../src/firmware/open-firmware.ts';
import { loadKeyring } from '../../../src/firmware/trust/keyring.ts';
import { parseTrustListFile } from '../../../src/firmware/trust/trust-list.ts';
import { TrustStore } from '../../../src/firmware/trust/trust-store.ts';
import { AgentError } from '../../../src/system/errors.ts';
import type { UpdatePorts } from '../../../src/update/policy/install-request.ts';
import { Gateway } from '../../fakes/machine/memory/gateway.ts';
import { MemoryService } from '../../fakes/machine/memory/memory-service.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { listArtifact, listBytes } from '../firmware/trust/lists.ts';

const old = makeKeyPair('ed25519');
const next = makeKeyPair('ed25519');
const devices = ['a gateway'];

function text(artifact: Buffer): Buffer {
  return Buffer.from(JSON.stringify(artifact.toString('base64')));
}

async function release(name: string, key: typeof old): Promise<Buffer> {
  const files = [{ name: 'rootfs.img', content: Buffer.from(`image number ${name}`) }];
  return text(await buildArtifact({ name: `version ${name}`, devices, key: key.privateKey, files }));
}

async function list(name: string, number: number, ...revokedKeys: readonly string[]): Promise<Buffer> {
  const keys = [{ name: 'next', pem: next.publicPem }];
  const content = listBytes({ number, keys, revoked: { keys: [...revokedKeys], releases: [] } });
  return text(await listArtifact(content, old.privateKey, { name: `version ${name}`, devices }));
}

const firmware = new Map([
  ['1', await release('1', old)],
  ['list', await list('list', 1, old.trusted.fingerprint)],
  ['more', await list('more', 2)],
  ['2', await release('2', next)],
  ['3', await release('3', old)],
]);

/** With the keys as they are kept on the gateway's own disk. */
function newGateway(seed = 1): Gateway {
  const service = new MemoryService(firmware, '0');
  const openFirmware: ReturnType<typeof firmwareOpener> = async (request, signal) => {
    const store = new TrustStore('/state', gateway.fs.api);
    const keyring = await loadKeyring({
      configured: async () => [old.trusted],
      store,
      knownTime: () => Promise.reject(new Error('nobody asks')),
    });
    const trust = {
      ...keyring,
      allowUnsigned: false,
      takeList: async (bytes: Uint8Array, artifact: string): Promise<void> =>
        void (await store.take(parseTrustListFile(bytes), { artifact })),
    };
    return firmwareOpener({ encoding: 'auto', trust, deviceType: 'a gateway' })(request, signal);
  };
  const gateway = new Gateway({ service, openFirmware, slots: { A: 'the factory', B: '' }, seed });
  gateway.start();
  return gateway;
}

async function rest(gateway: Gateway): Promise<void> {
  for (let round = 0; round < 10 && !gateway.power.isOut; round += 1) {
    const end = await gateway.run().catch((error: unknown) => {
      if (!gateway.power.isOut && !(error instanceof AgentError)) throw error;
      return undefined;
    });
    if (end?.kind === 'up-to-date' || end?.kind === 'deferred') return;
  }
}

async function name(gateway: Gateway, target: string): Promise<void> {
  gateway.service.target = target;
  await rest(gateway);
}

describe('a trust list', () => {
  test('changes no slot, is reported once, and keeps the running version under the service’s id', async () => {
    const gateway = newGateway();
    await name(gateway, '1');
    const before = [gateway.slots.content('A'), gateway.slots.content('B')];
    gateway.power.restore();
    await name(gateway, 'list');
    expect(gateway.power.history.filter((step) => step.includes('block'))).toEqual([]);
    expect([gateway.slots.content('A'), gateway.slots.content('B')]).toEqual(before);
    const { state } = await gateway.journal();
    expect(state).toMatchObject({ phase: { kind: 'idle' }, installed: { version: { id: 'list', name: 'version 1' } } });
    expect(gateway.service.current).toBe('list');
    const { reports } = gateway.service;
    expect(reports.filter(({ version }) => version === 'version list')).toMatchObject([
      { outcome: 'installed', code: 'ok' },
    ]);
  });

  test('that is withdrawn leaves nothing to install again', async () => {
    const gateway = newGateway();
    await name(gateway, '1');
    await name(gateway, 'more');
    gateway.power.restore();
    await name(gateway, '1');
    expect(gateway.power.history.filter((step) => step.includes('block'))).toEqual([]);
    expect(gateway.running).toBe('image number 1');
    expect(gateway.service.current).toBe('1');
  });

  test('is applied once if the running version is unknown', async () => {
    const gateway = newGateway();
    await name(gateway, 'list');
    gateway.power.restore();
    expect(await gateway.look()).toEqual({ kind: 'up-to-date', version: 'version list', trustList: true });
    expect(gateway.power.history.filter((step) => step.includes('/state'))).toEqual([]);
    await name(gateway, '2');
    expect(gateway.running).toBe('image number 2');
  });

  test('is bound by no floor, and raises none', async () => {
    const gateway = newGateway();
    await name(gateway, '1');
    const { floor } = (await gateway.journal()).state;
    await name(gateway, 'list');
    expect((await gateway.journal()).state.floor).toEqual(floor);
  });

  test('that power loss interrupts at any step is in effect in the end, and a revoked release is not installed from then on', async () => {
    for (let steps = 1; ; steps += 1) {
      const gateway = newGateway(steps);
      await name(gateway, '1');
      gateway.power.cutAfter(steps);
      await name(gateway, 'list');
      if (!gateway.power.isOut) break;
      const { history } = gateway.power;
      gateway.reboot();
      await rest(gateway);
      expect(gateway.service.current, `cut after ${history.join(', ')}`).toBe('list');
      await name(gateway, '3');
      expect(gateway.running).toBe('image number 1');
      await name(gateway, '2');
      expect(gateway.running).toBe('image number 2');
    }
  });
});

test('allows a rollback to a revoked release only by force', async () => {
  const gateway = newGateway();
  await name(gateway, '1');
  await name(gateway, 'list');
  await name(gateway, '2');
  const { state } = await gateway.journal();
  const ports = gateway.ports.bind(gateway);
  const why = 'is signed by old.pem, revoked by list 1';
  const revoked: UpdatePorts['revoked'] = async ({ digest }) => (digest === state.earlier[0]?.digest ? why : undefined);
  gateway.ports = async () => ({ ...(await ports()), revoked });
  const refusal = { code: 'release-revoked', message: expect.stringContaining(why) as string };
  await expect(gateway.goBack()).rejects.toMatchObject(refusal);
  expect(await gateway.goBack(true)).toMatchObject({ kind: 'rebooting' });
  gateway.start();
  await gateway.settle();
  expect(gateway.running).toBe('image number 1');
});
