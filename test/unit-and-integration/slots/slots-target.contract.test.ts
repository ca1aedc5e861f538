import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';

import { createSlotsTarget } from '../../../src/slots/slots-target.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { CruelDevice } from './cruel-device.ts';
import { FakeSystem } from './fake-system.ts';
import { LazyHasher } from './lazy-hasher.ts';
import type { SlotsBench } from './slots-target-contract.ts';
import { slotsTargetContract } from './slots-target-contract.ts';

const bootedSlot = async (): Promise<'A'> => 'A';
const rootElsewhere = '1 0 8:1 / / rw - ext4 /dev/sda1 rw';

slotsTargetContract(`files in ${tmpdir()}`, async (): Promise<SlotsBench> => {
  const capacityBytes = 2 * 1024 * 1024 + 512;
  const system = await FakeSystem.make(rootElsewhere);
  const zeros = Buffer.alloc(capacityBytes);
  const slots = { A: await system.file('a.img', zeros), B: await system.file('b.img', zeros) };
  return {
    target: createSlotsTarget({ name: 'gateway', slots }, { bootedSlot, log: silentLog }),
    capacityBytes,
    content: async (slot, sizeBytes) => {
      await using file = await open(slots[slot]);
      return (await file.read(Buffer.alloc(sizeBytes), 0, sizeBytes, 0)).buffer;
    },
    [Symbol.asyncDispose]: async () => system[Symbol.asyncDispose](),
  };
});

slotsTargetContract('a cruel device', async (): Promise<SlotsBench> => {
  const capacityBytes = 40 * 8192 + 512;
  const system = await FakeSystem.make(rootElsewhere);
  const zeros = Buffer.alloc(capacityBytes);
  const devices = { A: new CruelDevice(zeros), B: new CruelDevice(zeros) };
  const slots = { A: await system.file('a.img', zeros), B: await system.file('b.img', zeros) };
  const hashers: LazyHasher[] = [];
  let call = 0;
  devices.B.sectorsAtOnce = () => 1 + (call++ % 5);
  const target = createSlotsTarget(
    { name: 'gateway', slots },
    {
      bootedSlot,
      log: silentLog,
      system: system.view,
      startHasher: () => {
        const hasher = new LazyHasher();
        hashers.push(hasher);
        return hasher;
      },
      geometry: { blockBytes: 8192, blocks: 3 },
      openDevice: async (path, access) => devices[path === slots.A ? 'A' : 'B'].open(path, access),
    },
  );
  return {
    target,
    capacityBytes,
    content: async (slot, sizeBytes) => devices[slot].content(sizeBytes),
    [Symbol.asyncDispose]: async () => {
      await system[Symbol.asyncDispose]();
      assert.equal(devices.A.openFiles + devices.B.openFiles, 0);
      assert(!devices.A.closedInUse && !devices.B.closedInUse);
      assert(hashers.every((hasher) => hasher.disposed));
    },
  };
});
