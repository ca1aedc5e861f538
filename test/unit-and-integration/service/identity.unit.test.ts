import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { FileIdentityStore } from '../../../src/service/identity.ts';
import type { Identity } from '../../../src/service/identity.ts';
import { replaceFileDurably } from '../../../src/system/files/durable-file.ts';
import { ForgetfulFs } from '../../fakes/machine/memory/forgetful-fs.ts';
import { Power } from '../../fakes/machine/power.ts';
import { RecordingLog } from './recording-log.ts';

const identity: Identity = {
  serialNumber: 'GW-1',
  thingId: 'thing-1',
  apiKey: 'secret-key',
  activatedAt: '2027-01-01T00:00:00.000Z',
};

function rig(serialNumber = 'GW-1') {
  const fs = new ForgetfulFs(new Power(), () => 0);
  const log = new RecordingLog();
  return { fs, log, store: new FileIdentityStore('/state', serialNumber, log, fs.api) };
}

describe('the identity', () => {
  test('is absent at first', async () => {
    const { store } = rig();
    expect(await store.load()).toBeUndefined();
  });

  test('is there after it was saved', async () => {
    const { store } = rig();
    await store.save(identity);
    expect(await store.load()).toEqual(identity);
  });

  test('of another serial number is not used, and set aside with a log line without its key', async () => {
    const { fs, log, store } = rig('GW-2');
    await store.save(identity);
    await expect(store.load()).rejects.toMatchObject({ code: 'identity-foreign' });
    expect(fs.read('/state/identity.json')).toContain('GW-1');
    expect(await store.foreignOwner()).toBe('GW-1');
    await store.setAsideForeign();
    expect(fs.read('/state/identity.json')).toBeUndefined();
    expect(fs.read('/state/identity.json.other-serial-number')).toContain('GW-1');
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { reason: 'other-serial-number' } }]);
    expect(JSON.stringify(log.lines)).not.toContain('secret-key');
    expect([await store.load(), await store.foreignOwner()]).toEqual([undefined, undefined]);
  });

  test.each(['', '{', 'null', '{"serialNumber":"GW-1"}', JSON.stringify({ ...identity, apiKey: 'a\nb' })])(
    'that was damaged to %j is set aside',
    async (text) => {
      const { fs, store } = rig();
      await replaceFileDurably('/state/identity.json', text, fs.api);
      expect(await store.load()).toBeUndefined();
      expect(fs.read('/state/identity.json.damaged')).toBe(text);
    },
  );

  test('is whole or none, whatever the file holds', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.json(), fc.string()), async (text) => {
        const { fs, store } = rig();
        await replaceFileDurably('/state/identity.json', text, fs.api);
        expect(await store.load()).toBeUndefined();
      }),
    );
  });

  test('that cannot be read is an error of the disk, not a new activation', async () => {
    const { fs } = rig();
    const broken = {
      ...fs.api,
      readFile: async () => Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' })),
    };
    const store = new FileIdentityStore('/state', 'GW-1', new RecordingLog(), broken);
    await expect(store.load()).rejects.toMatchObject({ code: 'state-unavailable', exit: 'disk' });
  });
});
