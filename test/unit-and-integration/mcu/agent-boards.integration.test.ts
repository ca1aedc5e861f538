import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { beforeEach, describe, expect, test } from 'vitest';

import { openSerialLine } from '../../../src/serial/serial-line.ts';
import type { SimulatedAvr } from '../../fakes/boards/avr/simulated-avr.ts';
import type { FileGateway } from '../../fakes/machine/file-gateway.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { testInFull } from '../../full-run.ts';
import { howMuch } from '../../full.ts';
import { untilTestEnds } from '../../until-test-ends.ts';
import { GatewayWithMeter, halfWritten, matching } from './agent-boards-rig.ts';
import { boardsToml, programOf } from './meters.ts';

let rig: GatewayWithMeter;
let service: StandIn;
let meter: SimulatedAvr;
let gateway: FileGateway;

beforeEach(async () => {
  rig = untilTestEnds(await GatewayWithMeter.create());
  ({ service, meter, gateway } = rig);
});

describe('an update', () => {
  test('of gateway and meter brings both to the new version, and status shows the board', async () => {
    await rig.tryVersion('both');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
    expect(await meter.applicationSays(3_000)).toBe('hello 2');
    expect(service.world.things[0]?.currentVersionId).toBe('both');
    const status = await gateway.run('status');
    expect(status.stdout).toMatch(/meter: ATmega328P,\s+payload sha256:/);
    expect(await gateway.json('status')).toMatchObject({
      boards: [
        { name: 'meter', chip: 'ATmega328P', connected: true, imageDigest: matching(/^sha256:/) },
        { name: 'relay', connected: false },
      ],
    });
  });

  // Regression: two reboots, into the trial and back.
  test('for a board that is not plugged in fails before the reboot', async () => {
    service.world.targetVersionId = 'half';
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 74, stderr: matching(/port-missing/) });
    expect(gateway.rebootRequested).toBe(false);
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'old', code: undefined });
  });

  testInFull('of which one board cannot be reached gives the others back what they had', async () => {
    await rig.configure({ extraToml: boardsToml(meter).replace(`${meter.port}-relay`, '/dev/null') });
    await rig.tryVersion('half');
    await rig.toTheEnd();
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'old', code: 'port-missing' });
    expect(await meter.applicationSays(3_000)).toBe('hello 1');
  });

  test('resumes after its meter was unplugged in the middle', async () => {
    service.world.targetVersionId = 'board';
    const child = gateway.spawn(['--update-now', '--json']);
    const ended = once(child, 'exit');
    const lines = createInterface({ input: child.stdout as Readable });
    for await (const line of lines) if (line.includes('"writing"')) break;
    await meter.tell('unplug');
    await meter.tell('plug');
    expect(await ended).toEqual([0, null]);
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });

  testInFull('is rolled back manually on the gateway and on the meter, and forward again', async () => {
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

  testInFull('of the meter alone needs no reboot', async () => {
    service.world.targetVersionId = 'board';
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(gateway.rebootRequested).toBe(false);
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
    expect(service.world.things[0]?.currentVersionId).toBe('board');
  });

  testInFull('with an image that exceeds the chip rolls back, and the meter is untouched', async () => {
    const before = await meter.tell('stats');
    await rig.tryVersion('beyond');
    await rig.toTheEnd();
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'old', code: 'image-outside-chip' });
    const written = (stats: string): string | undefined => / writes=\d+/.exec(stats)?.[0];
    expect(written(await meter.tell('stats'))).toBe(written(before));
  });
});

describe('kill -9 while the meter is flashed', () => {
  test('and power lost with it leaves both old or both new', async () => {
    await rig.tryVersion('both');
    await rig.killWhileFlashing('--update-now');
    await meter.tell('power');
    expect(await programOf(meter)).toBe('neither');
    gateway.boot();
    await rig.toTheEnd();
    expect([
      { gateway: 'old', meter: 'old', code: matching(/./) },
      { gateway: 'new', meter: 'new', code: matching(/./) },
    ]).toContainEqual(await rig.state());
  });

  testInFull('costs only time: the next start completes the update', async () => {
    service.world.targetVersionId = 'board';
    await rig.killWhileFlashing('--update-now');
    expect(await programOf(meter)).toBe('neither');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });

  testInFull('on the trial of a new slot leaves both new where the gateway runs on', async () => {
    await rig.tryVersion('both');
    await rig.killWhileFlashing('--update-now');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
  });
});

/** Origins of a request with the same result. */
const ways = [
  ['by itself', false],
  ['through the daemon', true],
] as const;

describe.each(howMuch<readonly (typeof ways)[number][]>(ways, [ways[0]]))('agent mcu, %s', (_, withDaemon) => {
  let file: string;

  beforeEach(async () => {
    file = await rig.bringFile();
    if (withDaemon) await gateway.startDaemon();
    // The daemon recovers, then checks: a request joins the first, then the second, or starts its own cycle.
    for (let rounds = 0; rounds < 2; rounds += 1) await gateway.run('--update-now');
  });

  test('probes, plans, flashes, puts back and resets', async () => {
    expect(await gateway.json('mcu', 'probe', 'meter')).toMatchObject({
      chip: 'ATmega328P',
      capabilities: matchingAll('read'),
    });
    expect(await gateway.json('mcu', 'flash', 'meter', file, '--plan')).toMatchObject({ unitsTotal: 7, name: 'meter' });
    expect(await programOf(meter)).toBe('old');
    const flashed = await gateway.json('mcu', 'flash', 'meter', file);
    expect(flashed).toEqual({
      kind: 'result',
      outcome: { kind: 'flashed', version: 'meter-2.hex', board: 'meter', known: 'read-back' },
    });
    const again = await gateway.run('mcu', 'flash', 'meter', file);
    expect(again.stdout).toContain('Nothing to do: meter runs');
    expect(await programOf(meter)).toBe('new');
    expect(await gateway.json('mcu', 'list')).toMatchObject({
      boards: [
        { name: 'meter', connected: true, imageName: 'meter-2.hex' },
        { name: 'relay', connected: false },
      ],
    });
    expect(await gateway.json('mcu', 'flash', 'meter', file, '--plan')).toMatchObject({ unitsDifferent: 0 });
    expect(await gateway.run('mcu', 'restore', 'meter')).toMatchObject({ exitCode: 0 });
    expect(await programOf(meter)).toBe('old');
    expect((await gateway.run('mcu', 'restore', 'meter')).stdout).toContain('Nothing to do: meter runs');
    expect(await gateway.run('mcu', 'reset', 'meter')).toMatchObject({ exitCode: 0, stdout: 'Restarted: meter.\n' });
    expect((await gateway.run('mcu', 'list')).stdout).toMatch(/relay .*not connected/);
    const { findings } = (await gateway.json('doctor')) as { readonly findings: readonly unknown[] };
    expect(findings).toContainEqual({
      name: 'boards',
      ok: false,
      detail: matching(/^relay: nothing is plugged in at /),
      advice: matching(/./),
    });
  });

  test('prints the error in one line, with its exit code', async () => {
    const failing = async (...args: readonly string[]): Promise<string> => {
      const { exitCode, stderr } = await gateway.run('mcu', ...args);
      expect(stderr).not.toMatch(/\n\s+at /);
      return `${exitCode}: ${stderr.replaceAll(/\s+/g, ' ')}`;
    };
    // The daemon may still be in its first round.
    await expect.poll(() => failing('probe', 'metre')).toMatch(/^64: .*unknown board metre .*meter, relay/);
    expect(await failing('flash', 'meter', 'nothing.hex')).toMatch(/^64: .*cannot read .*nothing\.hex: no such file/);
    expect(await failing('probe', 'relay')).toMatch(/^74: .*relay: /);
    expect(await failing('restore', 'meter')).toMatch(/^77: .*its previous image has no backup/);
    const signal = AbortSignal.timeout(60_000);
    {
      await using _holder = await openSerialLine(meter.port, { baud: 9_600, parity: 'none' }, signal);
      expect(await failing('probe', 'meter')).toMatch(/^74: .*meter: /);
    }
    await rig.configure({ updateToml: 'follow = "none"' });
    expect(await programOf(meter)).toBe('old');
  });
});

describe('agent mcu flash that is interrupted', () => {
  let file: string;

  beforeEach(async () => {
    file = await rig.bringFile();
  });

  test('asks for confirmation at Ctrl-C, prints the state of the board, and is completed by a later daemon', async () => {
    const child = gateway.spawn(['mcu', 'flash', 'meter', file, '--json']);
    const ended = once(child, 'close');
    const said: string[] = [];
    createInterface({ input: child.stderr as Readable }).on('line', (line) => {
      said.push(line);
      if (line.includes('is being flashed')) child.kill('SIGINT');
    });
    const lines = createInterface({ input: child.stdout as Readable });
    const onLine = (line: string): void => {
      if (!line.includes('"writing"') || /"doneBytes":0\b/.test(line)) return;
      lines.off('line', onLine);
      child.kill('SIGINT');
    };
    lines.on('line', onLine);
    expect(await ended).toEqual([130, null]);
    expect(said.join(' ')).toMatch(/meter is being flashed; press Ctrl-C again to leave it partially flashed/);
    expect(await programOf(meter)).toBe('neither');
    expect(await rig.views()).toMatchObject(halfWritten);
    await gateway.startDaemon();
    await gateway.run('--update-now');
    expect(await programOf(meter)).toBe('new');
    expect(await meter.applicationSays(3_000)).toBe('hello 2');
    const status = async (): Promise<string> => (await gateway.run('status')).stdout;
    await expect.poll(status).not.toContain('Busy');
    expect(await status()).not.toMatch(/partially flashed/);
    expect(await gateway.run('mcu', 'restore', 'meter')).toMatchObject({ exitCode: 0 });
    expect(await programOf(meter)).toBe('old');
  });

  testInFull('by kill -9 is shown by every view, and the board’s backup can be restored', async () => {
    await rig.killWhileFlashing('mcu', 'flash', 'meter', file);
    expect(await programOf(meter)).toBe('neither');
    expect(await rig.views()).toMatchObject(halfWritten);
    expect(await gateway.run('mcu', 'restore', 'meter')).toMatchObject({ exitCode: 0 });
    expect(await meter.applicationSays(3_000)).toBe('hello 1');
    expect((await gateway.run('mcu', 'list')).stdout).not.toMatch(/being written/);
  });

  testInFull('is visible from another terminal, where status and list work until it ends', async () => {
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
      stdout: matching(/Busy: agent mcu flash meter \(process \d+\) is running/),
    });
    expect(list).toMatchObject({ exitCode: 0, stdout: matching(/being written/) });
    expect(await gateway.run('mcu', 'probe', 'meter')).toMatchObject({ exitCode: 75 });
    child.kill('SIGCONT');
    expect(await ended).toEqual([0, null]);
  });
});

test('a file without a signature is refused where nothing permits it', async () => {
  const file = await rig.writeFile();
  expect(await gateway.run('mcu', 'flash', 'meter', file)).toMatchObject({
    exitCode: 77,
    stderr: matching(/without a signature is not flashed/),
  });
  expect(await programOf(meter)).toBe('old');
});

function matchingAll(word: string): unknown {
  return expect.arrayContaining([word]);
}
