import { describe, expect, test } from 'vitest';

import type { Activation, ServiceTransport } from '../../../src/service/contract.ts';
import { operations } from '../../../src/service/operations.ts';
import { asThing } from '../../fakes/service/as-thing.ts';
import { randomContent } from '../../fakes/service/firmware-content.ts';
import { FirmwareText } from '../../fakes/service/firmware-text.ts';
import type { World } from '../../fakes/service/world.ts';
import { readAll } from './rest/rest-rig.ts';

/** A service and the way to it that is to be tested. The world is filled by `prepareWorld`. */
export interface TransportRig extends AsyncDisposable {
  readonly transport: ServiceTransport;
  readonly world: World;
}

const firmware = randomContent(700_000);
const { signal } = new AbortController();
const nastyId = 'ä/ ?#%+"\\';

export function prepareWorld(world: World): World {
  world.addVersion({ id: '1', name: 'one', firmware });
  world.addVersion({ id: '2', name: 'two', description: null });
  world.addVersion({ id: nastyId, name: 'three', description: 'the third', firmware });
  world.setUpdates('1', ['2', nastyId]);
  return world;
}

/** Behavior of every form of the provisioning operations (interface.md). */
export function serviceTransportContract(name: string, open: () => Promise<TransportRig>): void {
  describe(`the transport for ${name}`, () => {
    async function activated(): Promise<{ readonly rig: TransportRig; readonly thing: Activation }> {
      const rig = await open();
      return { rig, thing: await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal) };
    }

    test('activation makes a thing, and a second one keeps it but changes its key', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      const again = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
      expect(again.thingId).toBe(thing.thingId);
      expect(again.apiKey).not.toBe(thing.apiKey);
      expect((await rig.transport.call(operations.activate, { serialNumber: 'GW-2' }, signal)).thingId).not.toBe(
        thing.thingId,
      );
    });

    test('a serial number may hold any character', async () => {
      await using rig = await open();
      await rig.transport.call(operations.activate, { serialNumber: nastyId }, signal);
      expect(rig.world.things[0]?.serialNumber).toBe(nastyId);
    });

    test('current and target are the same until there is something to switch to', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      const one = { id: '1', name: 'one', description: undefined };
      expect(await rig.transport.call(operations.currentVersion, thing, signal)).toEqual(one);
      expect(await rig.transport.call(operations.targetVersion, thing, signal)).toEqual(one);
      rig.world.targetVersionId = nastyId;
      const third = { id: nastyId, name: 'three', description: 'the third' };
      expect(await rig.transport.call(operations.targetVersion, thing, signal)).toEqual(third);
      expect(await rig.transport.call(operations.currentVersion, thing, signal)).toEqual(one);
    });

    test('updates are listed, and may be none', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      expect(await rig.transport.call(operations.updates, { ...thing, versionId: '1' }, signal)).toMatchObject([
        { id: '2' },
        { id: nastyId },
      ]);
      expect(await rig.transport.call(operations.updates, { ...thing, versionId: nastyId }, signal)).toEqual([]);
    });

    test('a switch sets the version, and may be repeated', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      await rig.transport.call(operations.switchTo, { ...thing, versionId: nastyId }, signal);
      await rig.transport.call(operations.switchTo, { ...thing, versionId: nastyId }, signal);
      expect(await rig.transport.call(operations.currentVersion, thing, signal)).toMatchObject({ id: nastyId });
    });

    test('firmware arrives complete, as one JSON string', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      await using text = await rig.transport.firmware(nastyId, asThing(thing), undefined, signal);
      expect(text.startOffset).toBe(0);
      const expected = Buffer.concat([...new FirmwareText(firmware).read()]);
      expect((await readAll(text.chunks)).equals(expected)).toBe(true);
    });

    test('a download resumes at its position, or starts again', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      await using first = await rig.transport.firmware('1', asThing(thing), undefined, signal);
      const whole = await readAll(first.chunks);
      const from = { offset: 400_000, validator: first.validator ?? '"none"', totalBytes: whole.byteLength };
      await using second = await rig.transport.firmware('1', asThing(thing), from, signal);
      expect([0, 400_000]).toContain(second.startOffset);
      expect((await readAll(second.chunks)).equals(whole.subarray(second.startOffset))).toBe(true);
      await using changed = await rig.transport.firmware(
        '1',
        asThing(thing),
        { ...from, validator: '"other"' },
        signal,
      );
      expect(changed.startOffset).toBe(0);
    });

    test('what the service does not know is not found', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      const notFound = { code: 'service-not-found', remedy: 'give-up' };
      await expect(
        rig.transport.call(operations.updates, { ...thing, versionId: 'unknown' }, signal),
      ).rejects.toMatchObject(notFound);
      await expect(
        rig.transport.call(operations.switchTo, { ...thing, versionId: 'unknown' }, signal),
      ).rejects.toMatchObject(notFound);
      await expect(rig.transport.firmware('unknown', asThing(thing), undefined, signal)).rejects.toMatchObject(
        notFound,
      );
      const stranger = { ...thing, thingId: 'unknown' };
      await expect(rig.transport.call(operations.targetVersion, stranger, signal)).rejects.toMatchObject(notFound);
    });

    test('an aborted signal ends a call with its reason', async () => {
      const { rig, thing } = await activated();
      await using _ = rig;
      const reason = new Error('stop');
      await expect(rig.transport.call(operations.targetVersion, thing, AbortSignal.abort(reason))).rejects.toBe(reason);
      await expect(rig.transport.firmware('1', asThing(thing), undefined, AbortSignal.abort(reason))).rejects.toBe(
        reason,
      );
    });
  });
}

export interface ValueRig extends AsyncDisposable {
  readonly transport: ServiceTransport;
  readonly world: World;
}

/** Properties and datapoints. */
export function valueTransportContract(name: string, open: () => Promise<ValueRig>): void {
  describe(`the transport for ${name}`, () => {
    test.each([[{ on: true, level: [1, 2] }], [21.5], ['plain text'], [''], [null], [false]])(
      'a property that is set to %j has that value',
      async (value) => {
        await using rig = await open();
        const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
        await rig.transport.call(operations.setProperty, { ...thing, propertyId: nastyId, value }, signal);
        expect(await rig.transport.call(operations.property, { ...thing, propertyId: nastyId }, signal)).toEqual(value);
      },
    );

    test('datapoints arrive in their order', async () => {
      await using rig = await open();
      const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
      const points = [1, 2, 3].map((value) => ({ value, at: `2027-01-01T00:00:0${value}.500Z` }));
      await rig.transport.call(
        operations.postDatapoints,
        { ...thing, eventId: nastyId, value: points.slice(0, 2) },
        signal,
      );
      await rig.transport.call(
        operations.postDatapoints,
        { ...thing, eventId: nastyId, value: points.slice(2) },
        signal,
      );
      expect(rig.world.things[0]?.datapoints.get(nastyId)).toEqual(points);
    });

    test('an unknown property is not found', async () => {
      await using rig = await open();
      const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
      const call = rig.transport.call(operations.property, { ...thing, propertyId: 'unknown' }, signal);
      await expect(call).rejects.toMatchObject({ code: 'service-not-found' });
    });

    test('a dropped key is rejected', async () => {
      await using rig = await open();
      const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
      await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
      await expect(
        rig.transport.call(operations.property, { ...thing, propertyId: 'p' }, signal),
      ).rejects.toMatchObject({ code: 'key-rejected' });
    });
  });
}
