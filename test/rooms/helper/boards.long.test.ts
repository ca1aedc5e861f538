import type { ChildProcess } from 'node:child_process';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { SimulatedAvr } from '../../stand-ins/boards/avr/simulated-avr.ts';
import type { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import { stop } from '../../stand-ins/machine/file-gateway.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { programOf } from '../mcu/meters.ts';
import { TwoProcessesWithMeter } from './boards-rig.ts';

let rig: TwoProcessesWithMeter;
let service: StandIn;
let meter: SimulatedAvr;
let gateway: FileGateway;

beforeEach(async () => {
  rig = await TwoProcessesWithMeter.create();
  ({ service, meter, gateway } = rig);
});
afterEach(async () => {
  await rig[Symbol.asyncDispose]();
});

describe('an agent without rights, its helper, and a board', () => {
  test('give the board back what it held where another one, beside it, cannot be reached', async () => {
    service.world.targetVersionId = 'half';
    const told = await gateway.run('--update-now', '--json');
    expect(told.stdout).toMatch(/"board":"meter","step":"writing"/);
    await rig.configure({ updateToml: 'follow = "none"' });
    await gateway.run('--update-now');
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'old', code: 'port-missing' });
  });
});

describe('a cut while the board is flashed', () => {
  test('by the death of the agent costs nothing but time: the next one finishes the update', async () => {
    service.world.targetVersionId = 'board';
    expect(await rig.whileFlashing(['--update-now'], (child) => child.kill('SIGKILL'))).toBeNull();
    expect(await programOf(meter)).toBe('neither');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await rig.state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });

  test('by the death of the helper is told by the daemon, which goes on with the next helper', async () => {
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

  test('agent mcu flash that a person ends is said by every view, and finished by the next round', async () => {
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
