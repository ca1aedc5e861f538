import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { SimulatedAvr } from '../../stand-ins/boards/avr/simulated-avr.ts';
import type { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { GatewayWithMeter, halfWritten, matching } from './agent-boards-rig.ts';
import { programOf } from './meters.ts';

let rig: GatewayWithMeter;
let service: StandIn;
let meter: SimulatedAvr;
let gateway: FileGateway;

beforeEach(async () => {
  rig = await GatewayWithMeter.create();
  ({ service, meter, gateway } = rig);
});
afterEach(async () => {
  await rig[Symbol.asyncDispose]();
});

describe('an update', () => {
  test('is taken back by a person on the gateway and on the meter, and forth again', async () => {
    for (const version of ['v0', 'both']) {
      service.world.targetVersionId = version;
      await rig.untilNoReboot('--update-now');
    }
    expect(await rig.state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
    for (const version of ['old', 'new']) {
      await rig.untilNoReboot('rollback');
      expect(await rig.state()).toEqual({ gateway: version, meter: version, code: 'ok' });
    }
    expect(await meter.applicationSays(3_000)).toBe('hello 2');
  });

  test('of the meter alone needs no reboot', async () => {
    service.world.targetVersionId = 'board';
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(gateway.rebootRequested).toBe(false);
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
    expect(service.world.things[0]?.currentVersionId).toBe('board');
  });

  test('with an image that is beyond the chip goes back, and the meter was not touched', async () => {
    const before = await meter.tell('stats');
    await rig.tryVersion('beyond');
    await rig.toTheEnd();
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'old', code: 'image-outside-chip' });
    const written = (stats: string): string | undefined => / writes=\d+/.exec(stats)?.[0];
    expect(written(await meter.tell('stats'))).toBe(written(before));
  });
});

describe('kill -9 while the meter is flashed', () => {
  test('costs nothing but time: the next start finishes the update', async () => {
    service.world.targetVersionId = 'board';
    await rig.killWhileFlashing('--update-now');
    expect(await programOf(meter)).toBe('neither');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });

  test('on the trial of a new slot leaves both new where the gateway runs on', async () => {
    await rig.tryVersion('both');
    await rig.killWhileFlashing('--update-now');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
  });
});

describe('agent mcu flash that is interrupted', () => {
  let file: string;

  beforeEach(async () => {
    file = await rig.bringFile();
  });

  test('by kill -9 is said by every view, and what stood on the board can be put back', async () => {
    await rig.killWhileFlashing('mcu', 'flash', 'meter', file);
    expect(await programOf(meter)).toBe('neither');
    expect(await rig.views()).toMatchObject(halfWritten);
    expect(await gateway.run('mcu', 'restore', 'meter')).toMatchObject({ exitCode: 0 });
    expect(await meter.applicationSays(3_000)).toBe('hello 1');
    expect((await gateway.run('mcu', 'list')).stdout).not.toMatch(/being written/);
  });

  test('is seen from another terminal, to which status and list are not refused meanwhile', async () => {
    const child = gateway.spawn(['mcu', 'flash', 'meter', file, '--json']);
    const ended = once(child, 'exit');
    const writing = Promise.withResolvers<void>();
    createInterface({ input: child.stdout as Readable }).on('line', (line) => {
      if (/"step":"writing","doneBytes":[1-9]/.test(line)) writing.resolve();
    });
    await writing.promise;
    child.kill('SIGSTOP');
    const [status, list] = await Promise.all([gateway.run('status'), gateway.run('mcu', 'list')]);
    expect(status).toMatchObject({
      exitCode: 0,
      stdout: matching(/Busy: agent mcu flash meter \(process \d+\) is at/),
    });
    expect(list).toMatchObject({ exitCode: 0, stdout: matching(/being written/) });
    expect(await gateway.run('mcu', 'probe', 'meter')).toMatchObject({ exitCode: 75 });
    child.kill('SIGCONT');
    expect(await ended).toEqual([0, null]);
  });
});
