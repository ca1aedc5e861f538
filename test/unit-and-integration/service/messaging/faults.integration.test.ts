import { describe, expect, test } from 'vitest';

import type { Activation } from '../../../../src/service/contract.ts';
import { operations } from '../../../../src/service/operations.ts';
import { Throttle } from '../../../../src/service/throttle.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { asThing } from '../../../fakes/service/as-thing.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';
import { MessagingSide } from '../../../fakes/service/messaging.ts';
import type { ProvisioningOperation } from '../../../fakes/service/messaging.ts';
import { World } from '../../../fakes/service/world.ts';
import { readAll } from '../rest/rest-rig.ts';
import { CuttableLink } from './cuttable-link.ts';
import { messagingRig } from './messaging-rig.ts';
import type { MessagingRig } from './messaging-rig.ts';
import { Mosquitto } from './mosquitto.ts';

const { signal } = new AbortController();
const elsewhere = {
  activate: 'nobody',
  request: 'nobody',
  reply: 'nobody/reply',
  status: undefined,
  wake: undefined,
};
const firmware = randomContent(400_000);

const deadlines = { connectMs: 30_000, requestMs: 60_000, unheardMs: 5_000, totalMs: 90_000, transferMs: 90_000 };
const patience = { interval: 100 };

const names = ['currentVersion', 'targetVersion', 'updates', 'switchTo', 'firmware'] as const;
const expected: Readonly<Record<(typeof names)[number], unknown>> = {
  currentVersion: { id: '1', name: 'one', description: undefined },
  targetVersion: { id: '1', name: 'one', description: undefined },
  updates: [{ id: '2', name: 'two', description: undefined }],
  switchTo: '2',
  firmware: 533_338,
};

/** A broker, a service, a gateway that is activated, and a link between it and the broker that can break. */
class FaultRig implements AsyncDisposable {
  readonly broker: Mosquitto;
  readonly link: CuttableLink;
  readonly world: World;
  readonly service: MessagingSide;
  readonly rig: MessagingRig;
  readonly thing: Activation;
  readonly #opened: AsyncDisposableStack;

  private constructor(
    parts: Pick<FaultRig, 'broker' | 'link' | 'world' | 'service' | 'rig' | 'thing'>,
    opened: AsyncDisposableStack,
  ) {
    this.broker = parts.broker;
    this.link = parts.link;
    this.world = parts.world;
    this.service = parts.service;
    this.rig = parts.rig;
    this.thing = parts.thing;
    this.#opened = opened;
  }

  static async open(protocolVersion: 4 | 5 = 5): Promise<FaultRig> {
    await using opened = new AsyncDisposableStack();
    const broker = opened.use(await Mosquitto.start({ persistence: true }));
    const link = opened.use(await CuttableLink.open(broker.port));
    const world = new World();
    world.addVersion({ id: '1', name: 'one', firmware });
    world.addVersion({ id: '2', name: 'two' });
    world.setUpdates('1', ['2']);
    const service = opened.use(await MessagingSide.start(world, { url: broker.url, client: { protocolVersion } }));
    const rig = opened.use(messagingRig(link.url, { protocolVersion, deadlines }));
    const thing = await rig.transport.call(operations.activate, { serialNumber: 'GW-1' }, signal);
    return new FaultRig({ broker, link, world, service, rig, thing }, opened.move());
  }

  /** Returns the service's record afterwards, or the value that was read. */
  async ask(name: (typeof names)[number], { transport } = this.rig): Promise<unknown> {
    switch (name) {
      case 'currentVersion':
        return transport.call(operations.currentVersion, this.thing, signal);
      case 'targetVersion':
        return transport.call(operations.targetVersion, this.thing, signal);
      case 'updates':
        return transport.call(operations.updates, { ...this.thing, versionId: '1' }, signal);
      case 'switchTo':
        await transport.call(operations.switchTo, { ...this.thing, versionId: '2' }, signal);
        return this.world.things[0]?.currentVersionId;
      case 'firmware': {
        await using text = await transport.firmware('1', asThing(this.thing), undefined, signal);
        return (await readAll(text.chunks)).byteLength;
      }
    }
  }

  /** A request that is sent again because its link broke keeps its id. */
  idsOf(name: ProvisioningOperation): ReadonlySet<string> {
    return new Set(this.service.requestsOf(name).map(({ id }) => id));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

const each = names.flatMap((name) => ([5, 4] as const).map((protocolVersion) => ({ name, protocolVersion })));

describe.concurrent.each(each)(
  'during a request for $name, with MQTT $protocolVersion',
  ({ name, protocolVersion }) => {
    test('a cut link costs nothing: the reply comes on the next one', async () => {
      await using faulty = await FaultRig.open(protocolVersion);
      faulty.service.spoilNext(name, (_request, text) => {
        faulty.link.cut();
        return [{ text }];
      });
      expect(await faulty.ask(name)).toEqual(expected[name]);
      expect(faulty.idsOf(name).size).toBe(1);
    });

    test('a request that is lost with its link is sent again on the next one, under its id', async () => {
      await using faulty = await FaultRig.open(protocolVersion);
      faulty.link.loseNext();
      expect(await faulty.ask(name)).toEqual(expected[name]);
      expect(faulty.idsOf(name).size).toBe(1);
    });

    test('a broker that restarts in order costs nothing', async () => {
      await using faulty = await FaultRig.open(protocolVersion);
      faulty.service.spoilNext(name, async (_request, text) => {
        await faulty.broker.restart();
        return [{ text }];
      });
      expect(await faulty.ask(name)).toEqual(expected[name]);
      expect(faulty.idsOf(name).size).toBe(1);
    });

    test('a broker that is killed costs the request, which is made again with another id', async () => {
      await using faulty = await FaultRig.open(protocolVersion);
      faulty.service.spoilNext(name, async () => {
        await faulty.broker.restart('SIGKILL');
        return [];
      });
      await expect(faulty.ask(name)).rejects.toMatchObject({ code: 'broker-lost', remedy: 'retry' });
      await faulty.service.listening();
      expect(await faulty.ask(name)).toEqual(expected[name]);
      expect(faulty.idsOf(name).size).toBe(2);
    });

    test('a broker that freezes for a while costs only time', async () => {
      await using faulty = await FaultRig.open(protocolVersion);
      faulty.service.spoilNext(name, (_request, text) => {
        faulty.broker.freeze();
        setTimeout(() => faulty.broker.thaw(), 300);
        return [{ text }];
      });
      expect(await faulty.ask(name)).toEqual(expected[name]);
    });
  },
);

describe.concurrent('an activation', () => {
  test('is answered over the next connection after an interruption, and sent only once', async () => {
    await using faulty = await FaultRig.open();
    faulty.service.spoilNext('activate', (_request, text) => {
      faulty.link.cut();
      return [{ text }];
    });
    expect(await faulty.rig.transport.call(operations.activate, { serialNumber: 'GW-2' }, signal)).toMatchObject({
      thingId: 'thing-2',
    });
    expect(faulty.service.requestsOf('activate')).toHaveLength(2);
    expect(faulty.world.things[1]?.activations).toBe(1);
  });

  test('that may be on its way is not sent again when its link is lost', async () => {
    await using faulty = await FaultRig.open();
    await using hasty = messagingRig(faulty.link.url, { deadlines: { ...deadlines, requestMs: 2_000 } });
    await faulty.ask('currentVersion', hasty);
    faulty.link.loseNext();
    await expect(hasty.transport.call(operations.activate, { serialNumber: 'GW-2' }, signal)).rejects.toMatchObject({
      code: 'activation-timeout',
    });
    expect(await faulty.ask('currentVersion', hasty)).toEqual(expected.currentVersion);
    expect(faulty.service.requestsOf('activate')).toHaveLength(1);
  });

  test('whose reply is lost is not made again in its turn', async () => {
    await using faulty = await FaultRig.open();
    faulty.service.spoilNext('activate', async () => {
      await faulty.broker.restart('SIGKILL');
      return [];
    });
    const call = faulty.rig.transport.call(operations.activate, { serialNumber: 'GW-2' }, signal);
    await expect(call).rejects.toMatchObject({ code: 'activation-timeout', remedy: 'retry' });
  });
});

describe.concurrent('a firmware image', () => {
  test('arrives again, complete, after an interruption in its middle', async () => {
    await using faulty = await FaultRig.open();
    faulty.link.cutAfter(200_000);
    expect(await faulty.ask('firmware')).toBe(expected.firmware);
    expect(faulty.rig.log.lines).toContainEqual(
      expect.objectContaining({ message: 'the broker is to be reached again' }),
    );
  });

  test('may take longer than the deadline and the keep-alive time, as long as it comes', async () => {
    await using faulty = await FaultRig.open();
    await using patient = messagingRig(faulty.link.url, {
      keepAliveMs: 3_000,
      deadlines: { ...deadlines, requestMs: 3_000 },
    });
    faulty.link.slowDown(100_000);
    await using text = await patient.transport.firmware('1', asThing(faulty.thing), undefined, signal);
    expect((await readAll(text.chunks)).byteLength).toBe(expected.firmware);
    expect(patient.log.lines.map(({ message }) => message)).toEqual(['connected to the broker']);
  });

  test('may be slowed down by us for longer than every deadline and the keep-alive time', async () => {
    await using faulty = await FaultRig.open();
    faulty.world.addVersion({ id: '3', firmware: randomContent(100_000) });
    const throttle = new Throttle([{ window: undefined, bytesPerSecond: 30_000 }], systemClock);
    const short = { ...deadlines, requestMs: 1_000, transferMs: 1_500 };
    await using slowed = messagingRig(faulty.link.url, { keepAliveMs: 1_000, deadlines: short }, throttle);
    await using text = await slowed.transport.firmware('3', asThing(faulty.thing), undefined, signal);
    expect(throttle.inForce).toEqual({ bytesPerSecond: 30_000, untilMs: undefined });
    expect((await readAll(text.chunks)).byteLength).toBe(133_338);
    expect(slowed.log.lines.map(({ message }) => message)).toEqual(['connected to the broker']);
  });

  test('stops at its total timeout', async () => {
    await using faulty = await FaultRig.open();
    await using hasty = messagingRig(faulty.link.url, { deadlines: { ...deadlines, transferMs: 500 } });
    faulty.link.slowDown(50_000);
    const call = hasty.transport.firmware('1', asThing(faulty.thing), undefined, signal);
    await expect(call).rejects.toMatchObject({ code: 'total-timeout' });
  });

  test('of another device does not keep a small question waiting without end', async () => {
    await using faulty = await FaultRig.open();
    const short = { ...deadlines, requestMs: 2_000, totalMs: 4_000 };
    await using hasty = messagingRig(faulty.link.url, { deadlines: short });
    faulty.service.spoilNext('currentVersion', () => [{ text: Buffer.alloc(5_000_000, ' '), correlation: 'none' }]);
    faulty.link.slowDown(100_000);
    await expect(faulty.ask('currentVersion', hasty)).rejects.toMatchObject({ code: 'total-timeout' });
  });
});

describe.concurrent('the cause is named', () => {
  test('of a broker that is gone', async () => {
    await using faulty = await FaultRig.open();
    await faulty.broker.stop();
    // a request does not wait for the end of a pause
    const reconnect = { firstDelayMs: 3_600_000, maxDelayMs: 3_600_000 };
    await using direct = messagingRig(faulty.broker.url, { reconnect });
    await expect(faulty.ask('currentVersion', direct)).rejects.toMatchObject({
      code: 'broker-refused',
      exit: 'unreachable',
      remedy: 'retry',
    });
    expect(direct.transport.report).toMatchObject({ state: 'waiting', problem: { code: 'broker-refused' } });
    await faulty.broker.start();
    await faulty.service.listening();
    expect(await faulty.ask('currentVersion', direct)).toEqual(expected.currentVersion);
    expect(direct.transport.report).toMatchObject({ state: 'connected', problem: undefined });
  });

  test('of a broker that ignores a new connection', async ({ expect: here }) => {
    await using faulty = await FaultRig.open();
    faulty.broker.freeze();
    await using late = messagingRig(faulty.broker.url, { deadlines: { ...deadlines, connectMs: 500 } });
    await expect(faulty.ask('currentVersion', late)).rejects.toMatchObject({ code: 'broker-timeout' });
    expect(late.transport.report.problem?.code).toBe('broker-timeout');
    faulty.broker.thaw();
    const again = async (): Promise<unknown> => faulty.ask('currentVersion', late).catch(() => undefined);
    await here.poll(again, patience).toEqual(expected.currentVersion);
  });

  test('of a broker that freezes during a request', async () => {
    await using faulty = await FaultRig.open();
    await using late = messagingRig(faulty.broker.url, { deadlines: { ...deadlines, requestMs: 2_000 } });
    await faulty.ask('currentVersion', late);
    faulty.broker.freeze();
    await expect(faulty.ask('currentVersion', late)).rejects.toMatchObject({ code: 'broker-timeout' });
  });

  test('of a half-open connection, by the keep-alive time, and the request is answered over the next one', async ({
    expect: here,
  }) => {
    await using faulty = await FaultRig.open();
    await using watchful = messagingRig(faulty.link.url, { keepAliveMs: 1_000, deadlines });
    await faulty.ask('currentVersion', watchful);
    faulty.service.spoilNext('currentVersion', (_request, text) => {
      faulty.link.hang();
      return [{ text }];
    });
    const answer = faulty.ask('currentVersion', watchful);
    await here.poll(() => watchful.transport.report.problem?.code, patience).toBe('broker-timeout');
    faulty.link.heal();
    expect(await answer).toEqual(expected.currentVersion);
    expect(faulty.idsOf('currentVersion').size).toBe(2);
  });

  test('of a service without a reply, whose late reply is counted', async () => {
    await using faulty = await FaultRig.open();
    const answered = Promise.withResolvers<void>();
    await using hasty = messagingRig(faulty.link.url, { deadlines: { ...deadlines, requestMs: 2_000 } });
    faulty.service.spoilNext('currentVersion', async (_request, text) => {
      await answered.promise;
      return [{ text }];
    });
    await expect(faulty.ask('currentVersion', hasty)).rejects.toMatchObject({
      code: 'reply-timeout',
      message: expect.stringContaining('within 2 s') as string,
    });
    answered.resolve();
    expect(await faulty.ask('currentVersion', hasty)).toEqual(expected.currentVersion);
    expect(hasty.transport.report.ignored.late).toBe(1);
  });

  test('of a service that does not listen', async () => {
    await using faulty = await FaultRig.open();
    await faulty.service[Symbol.asyncDispose]();
    await using other = messagingRig(faulty.link.url, {
      topics: elsewhere,
      deadlines: { ...deadlines, requestMs: 600_000, unheardMs: 100 },
    });
    await expect(faulty.ask('currentVersion', other)).rejects.toMatchObject({
      code: 'reply-timeout',
      message: expect.stringContaining('the broker reports no subscriber there') as string,
    });
  });

  test('of requests that are too many', async () => {
    await using faulty = await FaultRig.open();
    const answered = Promise.withResolvers<void>();
    for (let count = 0; count < 8; count += 1) {
      faulty.service.spoilNext('currentVersion', async (_request, text) => {
        await answered.promise;
        return [{ text }];
      });
    }
    const calls = Array.from({ length: 9 }, async () => faulty.ask('currentVersion'));
    await expect(calls[8]).rejects.toMatchObject({ code: 'too-many-requests', remedy: 'retry' });
    answered.resolve();
    expect(await Promise.all(calls.slice(0, 8))).toHaveLength(8);
  });
});

test('pending requests are rejected when the agent ends', async () => {
  await using faulty = await FaultRig.open();
  faulty.service.spoilNext('currentVersion', () => []);
  const call = faulty.rig.transport.call(operations.currentVersion, faulty.thing, signal);
  await faulty.service.nextRequest('currentVersion');
  const [outcome] = await Promise.allSettled([call, faulty.rig.transport[Symbol.asyncDispose]()]);
  expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'broker-lost' } });
  await expect(faulty.rig.transport.call(operations.currentVersion, faulty.thing, signal)).rejects.toMatchObject({
    code: 'broker-lost',
  });
});

test('an aborted signal ends a wait for a broker that hangs', async () => {
  await using faulty = await FaultRig.open();
  faulty.broker.freeze();
  await using late = messagingRig(faulty.broker.url);
  const reason = new Error('stop');
  const controller = new AbortController();
  setTimeout(() => controller.abort(reason), 50);
  await expect(late.transport.call(operations.currentVersion, faulty.thing, controller.signal)).rejects.toBe(reason);
  faulty.broker.thaw();
});
