import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, readdir, realpath, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import type { Answer } from '../../../src/helper/link/link.ts';
import { PROTOCOL } from '../../../src/helper/verbs.ts';
import { SimulatedAvr } from '../../stand-ins/boards/avr/simulated-avr.ts';
import { FileGateway, stop } from '../../stand-ins/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../stand-ins/machine/file-gateway.ts';
import { versionsOf } from '../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { boardsToml, meters, programOf } from '../mcu/meters.ts';
import { Impostor, reachSocket, serving } from './impostor.ts';
import type { Answers } from './impostor.ts';

const isRoot = process.getuid?.() === 0;
/** `nobody`; without the rights of root both processes have those of the test. */
const agentUser = isRoot ? 65_534 : (process.getuid?.() ?? 0);
/** `dialout`, which `nobody` is not in. */
const DIALOUT = 20;

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
/** Slow pages: a flash can be hit in the middle. */
const pageMs = 20;

function image(text: string): Buffer {
  return Buffer.alloc(100_000, `${text}\n`, 'latin1');
}

const OLD = image('healthy 0');

async function artifact(name: string, contents: Readonly<Record<string, Buffer>>): Promise<Buffer> {
  const files = Object.entries(contents).map(([file, content]) => ({ name: file, content }));
  const names: Readonly<Record<string, string>> = { 'meter.hex': 'meter', 'relay.hex': 'relay' };
  const targets = Object.fromEntries(files.map((file) => [file.name, names[file.name] ?? 'gateway']));
  return buildArtifact({ name, devices: ['demo-gateway'], files, targets, key: keys.privateKey });
}

const firmware = {
  v0: await artifact('zero', { 'rootfs.ext4': OLD }),
  both: await artifact('both', { 'rootfs.ext4': image('healthy 1'), 'meter.hex': meters.new.hex }),
  board: await artifact('board', { 'meter.hex': meters.new.hex }),
  half: await artifact('half', { 'meter.hex': meters.new.hex, 'relay.hex': meters.new.hex }),
};

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let stack: AsyncDisposableStack;
let service: StandIn;
let meter: SimulatedAvr;
let gateway: FileGateway;
let helper: ChildProcess;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  const versions = versionsOf(firmware);
  service = stack.use(await startStandIn({ versions, currentVersionId: 'v0' }));
  const avr = { bootloader: 'optiboot', pageMs, contents: meters.old.memory } as const;
  meter = stack.use(await SimulatedAvr.start(isRoot ? { ...avr, user: agentUser } : avr));
  if (isRoot) await lendToDialout(meter.port);
  gateway = stack.use(await FileGateway.create(options()));
  helper = await gateway.startHelper();
});
afterEach(async () => {
  await stack.disposeAsync();
});

/** As udev does. */
async function lendToDialout(port: string): Promise<void> {
  const device = await realpath(port);
  await chown(device, 0, DIALOUT);
  await chmod(device, 0o660);
}

function options(more: Partial<FileGatewayOptions> = {}): FileGatewayOptions {
  const extraToml = boardsToml(meter);
  const trustedKey = keys.publicPem;
  return { serviceUrl: service.url, image: OLD, slotBytes: 200_000, trustedKey, extraToml, agentUser, ...more };
}

/** What gateway and meter run, and what the service heard in the end. */
async function state(): Promise<unknown> {
  const reported = service.world.things[0]?.properties.get('update_outcome') as { code?: string } | undefined;
  const system = gateway.imageBeginsWith(gateway.booted, 'healthy 1') ? 'new' : 'old';
  return { gateway: system, meter: await programOf(meter), code: reported?.code };
}

/** Stages the version and boots into its trial. */
async function tryVersion(version: string): Promise<void> {
  service.world.targetVersionId = version;
  expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
  expect(gateway.boot()).toBe('B');
}

/** The daemon settles, and then looks: who asks joins the first, and then the second, or makes a round of their own. */
async function startRestedDaemon(): Promise<ChildProcess> {
  const daemon = await gateway.startDaemon();
  for (let rounds = 0; rounds < 2; rounds += 1) await gateway.run('--update-now');
  return daemon;
}

/** Does something as soon as the first pages of the meter are written; resolves when the command has ended. */
async function whileFlashing(
  args: readonly string[],
  strike: (child: ChildProcess) => unknown,
): Promise<number | null> {
  const child = gateway.spawn([...args, '--json']);
  const ended = once(child, 'close') as Promise<[number | null]>;
  let isStruck = false;
  createInterface({ input: child.stdout as Readable }).on('line', (line) => {
    const { step, doneBytes = 0 } = JSON.parse(line) as { step?: string; doneBytes?: number };
    if (isStruck || step !== 'writing' || doneBytes === 0) return;
    isStruck = true;
    strike(child);
  });
  const [exitCode] = await ended;
  expect(isStruck).toBe(true);
  return exitCode;
}

describe('an agent without rights, its helper, and a board', () => {
  test('go from the look to the commit together with the slot, and back; what is kept of the board is the helper’s', async () => {
    await tryVersion('both');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
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
    expect(await state()).toEqual({ gateway: 'old', meter: 'old', code: 'ok' });
  });

  test('give the board back what it held where another one, beside it, cannot be reached', async () => {
    service.world.targetVersionId = 'half';
    const told = await gateway.run('--update-now', '--json');
    expect(told.stdout).toMatch(/"board":"meter","step":"writing"/);
    await gateway.configure(options({ updateToml: 'follow = "none"' }));
    await gateway.run('--update-now');
    expect(await state()).toEqual({ gateway: 'old', meter: 'old', code: 'port-missing' });
  });
});

describe('a cut while the board is flashed', () => {
  test('by the death of the agent costs nothing but time: the next one finishes the update', async () => {
    service.world.targetVersionId = 'board';
    expect(await whileFlashing(['--update-now'], (child) => child.kill('SIGKILL'))).toBeNull();
    expect(await programOf(meter)).toBe('neither');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });

  test('by the death of the helper is told by the daemon, which goes on with the next helper', async () => {
    const daemon = await startRestedDaemon();
    service.world.targetVersionId = 'board';
    const exitCode = await whileFlashing(['--update-now'], () => helper.kill('SIGKILL'));
    expect(exitCode).toBe(75);
    expect(await gateway.json('status')).toMatchObject({ boards: [{ name: 'meter', connected: true }, {}] });
    helper = await gateway.startHelper();
    await gateway.run('--update-now');
    expect(await state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
    expect(await stop(daemon)).toBe(0);
  });

  test('by the loss of power leaves gateway and meter both old or both new', async () => {
    await tryVersion('both');
    await whileFlashing(['--update-now'], (child) => {
      child.kill('SIGKILL');
      helper.kill('SIGKILL');
    });
    await meter.tell('power');
    expect(await programOf(meter)).toBe('neither');
    gateway.boot();
    helper = await gateway.startHelper();
    await gateway.configure(options({ updateToml: 'follow = "none"' }));
    await gateway.run('--update-now');
    while (gateway.rebootRequested) {
      gateway.boot();
      await gateway.run('--update-now');
    }
    expect([
      { gateway: 'old', meter: 'old', code: matching(/./) },
      { gateway: 'new', meter: 'new', code: matching(/./) },
    ]).toContainEqual(await state());
  });
});

describe('agent mcu', () => {
  let file: string;

  beforeEach(async () => {
    file = join(gateway.directory, 'meter-2.hex');
    await writeFile(file, meters.new.hex);
    await gateway.configure(options({ trustedKey: undefined, updateToml: 'follow = "none"' }));
  });

  test('probes, plans, flashes, puts back and resets through the daemon', async () => {
    await startRestedDaemon();
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

  test('flash that a person ends is said by every view, and finished by the next round', async () => {
    const twice = (child: ChildProcess): void => {
      child.kill('SIGINT');
      child.stderr?.on('data', (said) => String(said).includes('is being written') && child.kill('SIGINT'));
    };
    expect(await whileFlashing(['mcu', 'flash', 'meter', file], twice)).toBe(130);
    expect(await programOf(meter)).toBe('neither');
    const writing = { name: 'meter-2.hex', restorable: true };
    expect(await gateway.json('mcu', 'list')).toMatchObject({ boards: [{ name: 'meter', writing }, {}] });
    expect((await gateway.run('doctor')).stdout).toMatch(/meter: the writing of meter-2\.hex was cut/);
    await gateway.run('--update-now');
    expect(await programOf(meter)).toBe('new');
    expect((await gateway.json('mcu', 'list')) as object).not.toHaveProperty('boards.0.writing');
  });

  test('flash is refused where nothing vouches for the file, whoever asks the helper', async () => {
    await gateway.configure(options({ updateToml: 'follow = "none"' }));
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
    await gateway.configure(options({ trustedKey: undefined, updateToml: 'follow = "none"' }));
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
