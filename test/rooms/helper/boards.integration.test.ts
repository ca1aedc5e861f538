import type { ChildProcess } from 'node:child_process';
import { chmod, readdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { Answer } from '../../../src/helper/link/link.ts';
import { PROTOCOL } from '../../../src/helper/verbs.ts';
import { testInFull } from '../../in-full.ts';
import type { SimulatedAvr } from '../../stand-ins/boards/avr/simulated-avr.ts';
import { stop } from '../../stand-ins/machine/file-gateway.ts';
import type { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { meters, programOf } from '../mcu/meters.ts';
import { TwoProcessesWithMeter } from './boards-rig.ts';
import { Impostor, reachSocket, serving } from './impostor.ts';
import type { Answers } from './impostor.ts';

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let rig: TwoProcessesWithMeter;
let service: StandIn;
let meter: SimulatedAvr;
let gateway: FileGateway;
/** What was attached to the helper. */
let stack: DisposableStack;

beforeEach(async () => {
  rig = await TwoProcessesWithMeter.create();
  stack = new DisposableStack();
  ({ service, meter, gateway } = rig);
});
afterEach(async () => {
  stack.dispose();
  await rig[Symbol.asyncDispose]();
});

describe('an agent without rights, its helper, and a board', () => {
  test('go from the look to the commit together with the slot, and back; what is kept of the board is the helper’s', async () => {
    await rig.tryVersion('both');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
    expect(await meter.applicationSays(3_000)).toBe('hello 2');
    const folder = join(gateway.directory, 'state/boards/meter');
    expect((await readdir(folder)).sort()).toEqual(['flashed.json', 'payload', 'previous.json', 'writing.json']);
    expect(await stat(folder)).toMatchObject({ uid: process.getuid?.(), mode: 0o40_700 });
    expect(await gateway.json('status')).toMatchObject({
      boards: [
        { name: 'meter', chip: 'ATmega328P', connected: true, imageDigest: matching(/^sha256:/) },
        { name: 'relay', connected: false },
      ],
    });
    await gateway.run('rollback');
    expect(gateway.boot()).toBe('A');
    await gateway.run('--update-now');
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'old', code: 'ok' });
  });

  testInFull('give the board back what it held where another one, beside it, cannot be reached', async () => {
    service.world.targetVersionId = 'half';
    const told = await gateway.run('--update-now', '--json');
    expect(told.stdout).toMatch(/"board":"meter","step":"writing"/);
    await rig.configure({ updateToml: 'follow = "none"' });
    await gateway.run('--update-now');
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'old', code: 'port-missing' });
  });
});

describe('a cut while the board is flashed', () => {
  test('by the loss of power leaves gateway and meter both old or both new', async () => {
    await rig.tryVersion('both');
    await rig.whileFlashing(['--update-now'], (child) => {
      child.kill('SIGKILL');
      rig.helper.kill('SIGKILL');
    });
    await meter.tell('power');
    expect(await programOf(meter)).toBe('neither');
    gateway.boot();
    await rig.startHelper();
    await rig.configure({ updateToml: 'follow = "none"' });
    await gateway.run('--update-now');
    while (gateway.rebootRequested) {
      gateway.boot();
      await gateway.run('--update-now');
    }
    expect([
      { gateway: 'old', meter: 'old', code: matching(/./) },
      { gateway: 'new', meter: 'new', code: matching(/./) },
    ]).toContainEqual(await rig.state());
  });

  testInFull('by the death of the agent costs nothing but time: the next one finishes the update', async () => {
    service.world.targetVersionId = 'board';
    expect(await rig.whileFlashing(['--update-now'], (child) => child.kill('SIGKILL'))).toBeNull();
    expect(await programOf(meter)).toBe('neither');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });

  testInFull('by the death of the helper is told by the daemon, which goes on with the next helper', async () => {
    const daemon = await rig.startRestedDaemon();
    service.world.targetVersionId = 'board';
    const exitCode = await rig.whileFlashing(['--update-now'], () => rig.helper.kill('SIGKILL'));
    expect(exitCode).toBe(75);
    expect(await gateway.json('status')).toMatchObject({ boards: [{ name: 'meter', connected: true }, {}] });
    await rig.startHelper();
    await gateway.run('--update-now');
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
    expect(await stop(daemon)).toBe(0);
  });

  testInFull('agent mcu flash that a person ends is said by every view, and finished by the next round', async () => {
    const file = await rig.bringFile();
    const twice = (child: ChildProcess): void => {
      child.kill('SIGINT');
      child.stderr?.on('data', (said) => String(said).includes('is being written') && child.kill('SIGINT'));
    };
    expect(await rig.whileFlashing(['mcu', 'flash', 'meter', file], twice)).toBe(130);
    expect(await programOf(meter)).toBe('neither');
    const writing = { name: 'meter-2.hex', restorable: true };
    expect(await gateway.json('mcu', 'list')).toMatchObject({ boards: [{ name: 'meter', writing }, {}] });
    expect((await gateway.run('doctor')).stdout).toMatch(/meter: the writing of meter-2\.hex was cut/);
    await gateway.run('--update-now');
    expect(await programOf(meter)).toBe('new');
    expect((await gateway.json('mcu', 'list')) as object).not.toHaveProperty('boards.0.writing');
  });
});

describe('agent mcu', () => {
  let file: string;

  beforeEach(async () => {
    file = await rig.bringFile();
  });

  testInFull('probes, plans, flashes, puts back and resets through the daemon', async () => {
    await rig.startRestedDaemon();
    expect(await gateway.json('mcu', 'probe', 'meter')).toMatchObject({ chip: 'ATmega328P' });
    expect(await gateway.json('mcu', 'flash', 'meter', file, '--plan')).toMatchObject({ unitsTotal: 7 });
    const flashed = await gateway.json('mcu', 'flash', 'meter', file);
    expect(flashed).toEqual({ kind: 'result', outcome: { kind: 'flashed', version: 'meter-2.hex', board: 'meter' } });
    expect((await gateway.run('mcu', 'flash', 'meter', file)).stdout).toContain('Nothing to do: meter holds');
    expect(await programOf(meter)).toBe('new');
    expect(await gateway.json('mcu', 'list')).toMatchObject({
      boards: [{ name: 'meter', imageName: 'meter-2.hex' }, {}],
    });
    expect(await gateway.run('mcu', 'restore', 'meter')).toMatchObject({ exitCode: 0 });
    expect(await programOf(meter)).toBe('old');
    expect(await gateway.run('mcu', 'reset', 'meter')).toMatchObject({ exitCode: 0 });
    expect(await gateway.run('mcu', 'flash', 'meter', join(file, 'x'))).toMatchObject({ exitCode: 64 });
    await chmod(await realpath(meter.port), 0o000);
    expect((await gateway.run('doctor')).stdout).toMatch(/FAIL +boards +meter: this user may not open/);
  });

  testInFull('flash is refused where nothing vouches for the file, whoever asks the helper', async () => {
    await rig.configure({ updateToml: 'follow = "none"' });
    expect(await gateway.run('mcu', 'flash', 'meter', file)).toMatchObject({
      exitCode: 77,
      stderr: matching(/signature/),
    });
    expect(JSON.stringify(await gateway.json('log', '--security'))).toContain('signature-refused');
    expect(await programOf(meter)).toBe('old');
  });

  test('flash of an older file needs root, who permits this file for this board', async () => {
    expect(await gateway.run('mcu', 'flash', 'meter', file, '--allow-downgrade')).toMatchObject({ exitCode: 0 });
    expect(await programOf(meter)).toBe('new');
    const impostor = await attached(serving(meters.new.hex));
    const order = { board: 'meter', name: 'x.hex', allowDowngrade: true };
    expect(await impostor.refusal('flashBoard', order)).toBe('helper-refused');
  });
});

describe('an agent that somebody has broken into', () => {
  const order = { board: 'meter', name: 'x.hex' };
  const writing = { kind: 'writing' };
  const flashed = { kind: 'flashed', chip: 'ATmega328P', unitsWritten: 7, repeated: 0 };
  const held = Buffer.from('000000000000000401020304', 'hex');

  /** Hands over the file, and says these steps one after the other; the last one again and again. */
  function saying(...steps: readonly object[]): Answers {
    let said = 0;
    const next = (): Answer => {
      const { body, ...output } = { body: undefined, ...steps[Math.min((said += 1), steps.length) - 1] };
      return { output, body };
    };
    return { ...serving(meters.new.hex), openBoard: () => ({ output: { job: 1 } }), stepBoard: next };
  }

  beforeEach(async () => {
    await rig.configure({ trustedKey: undefined, updateToml: 'follow = "none"' });
  });

  test('makes no record that the board holds what it does not, by what comes out of turn or in no form', async () => {
    const ends: string[] = [];
    for (const steps of [
      [flashed], // without a mark
      [{ kind: 'held', isLast: false }], // and nothing of it
      [{ kind: 'held', isLast: true, body: held.subarray(1) }], // which is no image
      [writing], // and again and again
      [writing, { kind: 'held', isLast: true, body: held }], // when it is written already
      [writing, { ...flashed, chip: '\u001b[2J' }], // a name that moves the cursor
      [{ kind: 'erased' }],
    ]) {
      const impostor = await attached(saying(...steps));
      ends.push(await impostor.refusal('flashBoard', order));
      impostor.link.close();
    }
    const hungUp = 'the helper hung up';
    expect(ends).toEqual([hungUp, hungUp, 'image-malformed', hungUp, hungUp, hungUp, hungUp]);
    const { boards } = (await (await attached()).say('boards')) as { boards: Record<string, object> };
    expect(boards['meter']).not.toHaveProperty('imageName');
    expect(await programOf(meter)).toBe('old');
  });

  test('and hangs up while the board is written leaves the mark, and the next agent goes on', async () => {
    const steps = saying(writing);
    const impostor = await attached({
      ...steps,
      stepBoard: async (served) => {
        const { boards } = (await impostor.say('boards')) as { boards: Record<string, object> };
        if ('writing' in (boards['meter'] ?? {})) impostor.link.close();
        return (await steps['stepBoard']?.(served)) ?? { output: {} };
      },
    });
    expect(await impostor.refusal('flashBoard', order)).toBe('the helper hung up');
    expect(await programOf(meter)).toBe('old');
    await gateway.run('--update-now');
    expect(await programOf(meter)).toBe('new');
  });
});

/** While the helper winds up the connection before, it is asked again. */
async function attached(answers: Answers = {}): Promise<Impostor> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const socket = await reachSocket(join(gateway.directory, 'helper/helper.sock'));
    const impostor = stack.use(new Impostor(socket, answers));
    if ((await impostor.refusal('attach', { protocol: PROTOCOL })).startsWith('done')) return impostor;
  }
  throw new Error('the helper serves somebody else for ever');
}
