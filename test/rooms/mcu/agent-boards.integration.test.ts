import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { openSerialLine } from '../../../src/serial/serial-line.ts';
import { SimulatedAvr } from '../../stand-ins/boards/avr/simulated-avr.ts';
import { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../stand-ins/machine/file-gateway.ts';
import { versionsOf } from '../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { intelHex } from './images/build.ts';
import { boardsToml, meters, programOf } from './meters.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
/** Slow pages: a flash can be watched, and hit in the middle. */
const pageMs = 20;

const beyondTheChip = Buffer.from(intelHex([{ address: 0x9000, bytes: new Uint8Array(64) }]));

function image(text: string): Buffer {
  return Buffer.alloc(100_000, `${text}\n`, 'latin1');
}

const OLD = image('healthy 0');
const NEW = image('healthy 1');

async function artifact(name: string, contents: Readonly<Record<string, Buffer>>): Promise<Buffer> {
  const names: Readonly<Record<string, string>> = {
    'rootfs.ext4': 'gateway',
    'meter.hex': 'meter',
    'relay.hex': 'relay',
  };
  const files = Object.entries(contents).map(([file, content]) => ({ name: file, content }));
  const targets = Object.fromEntries(files.map((file) => [file.name, names[file.name] ?? '']));
  const order = Object.values(targets).filter((target) => target !== 'gateway');
  return buildArtifact({ name, devices: ['demo-gateway'], files, targets, order, key: keys.privateKey });
}

const firmware = {
  v0: await artifact('zero', { 'rootfs.ext4': OLD }),
  both: await artifact('both', { 'rootfs.ext4': NEW, 'meter.hex': meters.new.hex }),
  board: await artifact('board', { 'meter.hex': meters.new.hex }),
  half: await artifact('half', { 'rootfs.ext4': NEW, 'meter.hex': meters.new.hex, 'relay.hex': meters.new.hex }),
  beyond: await artifact('beyond', { 'rootfs.ext4': NEW, 'meter.hex': beyondTheChip }),
};

const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

let stack: AsyncDisposableStack;
let service: StandIn;
let meter: SimulatedAvr;
let gateway: FileGateway;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  const versions = versionsOf(firmware);
  service = stack.use(await startStandIn({ versions, currentVersionId: 'v0' }));
  meter = stack.use(await SimulatedAvr.start({ bootloader: 'optiboot', pageMs, contents: meters.old.memory }));
  gateway = stack.use(await FileGateway.create(options()));
});
afterEach(async () => {
  await stack.disposeAsync();
});

function options(more: Partial<FileGatewayOptions> = {}): FileGatewayOptions {
  const extraToml = boardsToml(meter);
  return { serviceUrl: service.url, image: OLD, slotBytes: 200_000, trustedKey: keys.publicPem, extraToml, ...more };
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
  await gateway.run('--update-now');
  expect(gateway.boot()).toBe('B');
}

/** Lets the agent finish what is under way, through as many reboots as it asks for, and begin nothing new. */
async function toTheEnd(): Promise<void> {
  await gateway.configure(options({ updateToml: 'follow = "none"' }));
  await untilNoReboot('--update-now');
}

async function untilNoReboot(command: string): Promise<void> {
  await gateway.run(command);
  for (let boots = 0; gateway.rebootRequested && boots < 5; boots += 1) {
    gateway.boot();
    await gateway.run('--update-now');
  }
}

/** Runs an update and kills it with SIGKILL as soon as the first pages of the meter are written. */
async function killWhileFlashing(...args: readonly string[]): Promise<void> {
  const child = gateway.spawn([...args, '--json']);
  const ended = once(child, 'exit');
  createInterface({ input: child.stdout as Readable }).on('line', (line) => {
    const { step, doneBytes = 0 } = JSON.parse(line) as { step?: string; doneBytes?: number };
    if (step === 'writing' && doneBytes > 0) child.kill('SIGKILL');
  });
  await ended;
  expect(child.signalCode).toBe('SIGKILL');
}

describe('an update', () => {
  test('of gateway and meter brings both to the new version, and status shows the board', async () => {
    await tryVersion('both');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
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

  test('is taken back by a person on the gateway and on the meter, and forth again', async () => {
    for (const version of ['v0', 'both']) {
      service.world.targetVersionId = version;
      await untilNoReboot('--update-now');
    }
    expect(await state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
    for (const version of ['old', 'new']) {
      await untilNoReboot('rollback');
      expect(await state()).toEqual({ gateway: version, meter: version, code: 'ok' });
    }
    expect(await meter.applicationSays(3_000)).toBe('hello 2');
  });

  test('of the meter alone needs no reboot', async () => {
    service.world.targetVersionId = 'board';
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(gateway.rebootRequested).toBe(false);
    expect(await state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
    expect(service.world.things[0]?.currentVersionId).toBe('board');
  });

  test('of which one board cannot be reached gives the others back what they had', async () => {
    await tryVersion('half');
    await toTheEnd();
    expect(await state()).toEqual({ gateway: 'old', meter: 'old', code: 'port-missing' });
    expect(await meter.applicationSays(3_000)).toBe('hello 1');
  });

  test('with an image that is beyond the chip goes back, and the meter was not touched', async () => {
    const before = await meter.tell('stats');
    await tryVersion('beyond');
    await toTheEnd();
    expect(await state()).toEqual({ gateway: 'old', meter: 'old', code: 'image-outside-chip' });
    const written = (stats: string): string | undefined => / writes=\d+/.exec(stats)?.[0];
    expect(written(await meter.tell('stats'))).toBe(written(before));
  });

  test('whose meter is unplugged in the middle goes on when it is back', async () => {
    service.world.targetVersionId = 'board';
    const child = gateway.spawn(['--update-now', '--json']);
    const ended = once(child, 'exit');
    const lines = createInterface({ input: child.stdout as Readable });
    for await (const line of lines) if (line.includes('"writing"')) break;
    await meter.tell('unplug');
    await meter.tell('plug');
    expect(await ended).toEqual([0, null]);
    expect(await state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });
});

describe('kill -9 while the meter is flashed', () => {
  test('costs nothing but time: the next start finishes the update', async () => {
    service.world.targetVersionId = 'board';
    await killWhileFlashing('--update-now');
    expect(await programOf(meter)).toBe('neither');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await state()).toEqual({ gateway: 'old', meter: 'new', code: 'ok' });
  });

  test('on the trial of a new slot leaves both new where the gateway runs on', async () => {
    await tryVersion('both');
    await killWhileFlashing('--update-now');
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 0 });
    expect(await state()).toEqual({ gateway: 'new', meter: 'new', code: 'ok' });
  });

  test('and power lost with it leaves both old or both new', async () => {
    await tryVersion('both');
    await killWhileFlashing('--update-now');
    await meter.tell('power');
    expect(await programOf(meter)).toBe('neither');
    gateway.boot();
    await toTheEnd();
    expect([
      { gateway: 'old', meter: 'old', code: matching(/./) },
      { gateway: 'new', meter: 'new', code: matching(/./) },
    ]).toContainEqual(await state());
  });
});

describe.each([
  ['by itself', false],
  ['through the daemon', true],
] as const)('agent mcu, %s', (_, withDaemon) => {
  let file: string;

  beforeEach(async () => {
    file = join(gateway.directory, 'meter-2.hex');
    await writeFile(file, meters.new.hex);
    await gateway.configure(options({ trustedKey: undefined, updateToml: 'follow = "none"' }));
    if (withDaemon) await gateway.startDaemon();
    // The daemon settles, and then looks: who asks joins the first, and then the second, or makes a round of their own.
    for (let rounds = 0; rounds < 2; rounds += 1) await gateway.run('--update-now');
  });

  test('probes, plans, flashes, puts back and resets', async () => {
    expect(await gateway.json('mcu', 'probe', 'meter')).toMatchObject({ chip: 'ATmega328P', can: matchingAll('read') });
    expect(await gateway.json('mcu', 'flash', 'meter', file, '--plan')).toMatchObject({ unitsTotal: 7, name: 'meter' });
    expect(await programOf(meter)).toBe('old');
    const flashed = await gateway.json('mcu', 'flash', 'meter', file);
    expect(flashed).toEqual({ kind: 'result', outcome: { kind: 'flashed', version: 'meter-2.hex', board: 'meter' } });
    const again = await gateway.run('mcu', 'flash', 'meter', file);
    expect(again.stdout).toContain('Nothing to do: meter holds');
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
    expect(await gateway.run('mcu', 'reset', 'meter')).toMatchObject({ exitCode: 0, stdout: 'Restarted: meter.\n' });
    expect((await gateway.run('mcu', 'list')).stdout).toMatch(/relay .*nothing is plugged in/);
    const { findings } = (await gateway.json('doctor')) as { readonly findings: readonly unknown[] };
    expect(findings).toContainEqual({
      name: 'boards',
      ok: false,
      detail: matching(/^relay: nothing is plugged in at /),
      advice: matching(/./),
    });
  });

  test('says what is wrong in one line, with its exit code', async () => {
    const failing = async (...args: readonly string[]): Promise<string> => {
      const { exitCode, stderr } = await gateway.run('mcu', ...args);
      expect(stderr).not.toMatch(/\n\s+at /);
      return `${exitCode}: ${stderr.replaceAll(/\s+/g, ' ')}`;
    };
    // The daemon may still be in its first round.
    await expect
      .poll(() => failing('probe', 'metre'), { timeout: 60_000 })
      .toMatch(/^64: .*no board metre .*meter, relay/);
    expect(await failing('flash', 'meter', 'nothing.hex')).toMatch(/^64: .*nothing\.hex cannot be read/);
    expect(await failing('probe', 'relay')).toMatch(/^74: .*relay: /);
    expect(await failing('restore', 'meter')).toMatch(/^77: .*nothing is kept/);
    const signal = AbortSignal.timeout(60_000);
    {
      await using _holder = await openSerialLine(meter.port, { baud: 9_600, parity: 'none' }, signal);
      expect(await failing('probe', 'meter')).toMatch(/^74: .*meter: /);
    }
    await gateway.configure(options({ updateToml: 'follow = "none"' }));
    expect(await programOf(meter)).toBe('old');
  });
});

describe('agent mcu flash that is interrupted', () => {
  let file: string;

  beforeEach(async () => {
    file = join(gateway.directory, 'meter-2.hex');
    await writeFile(file, meters.new.hex);
    await gateway.configure(options({ trustedKey: undefined, updateToml: 'follow = "none"' }));
  });

  /** What a person sees of it in every view. */
  async function views(): Promise<unknown> {
    const { boards } = (await gateway.json('mcu', 'list')) as { readonly boards: readonly unknown[] };
    const { findings } = (await gateway.json('doctor')) as { readonly findings: readonly { readonly name: string }[] };
    const doctor = findings.find(({ name }) => name === 'boards');
    return { list: boards[0], doctor, status: (await gateway.run('status')).stdout };
  }

  const halfWritten = {
    list: { name: 'meter', writing: { name: 'meter-2.hex', restorable: true } },
    doctor: { ok: false, detail: matching(/^meter: the writing of meter-2\.hex was cut/) },
    status: matching(/Broken: .*meter is half written and\s+runs nothing/),
  };

  test('asks once more at Ctrl-C, says what it leaves, and is finished by a daemon that starts later', async () => {
    const child = gateway.spawn(['mcu', 'flash', 'meter', file, '--json']);
    const ended = once(child, 'close');
    const said: string[] = [];
    createInterface({ input: child.stderr as Readable }).on('line', (line) => {
      said.push(line);
      if (line.includes('is being written')) child.kill('SIGINT');
    });
    const lines = createInterface({ input: child.stdout as Readable });
    const onLine = (line: string): void => {
      if (!line.includes('"writing"') || /"doneBytes":0\b/.test(line)) return;
      lines.off('line', onLine);
      child.kill('SIGINT');
    };
    lines.on('line', onLine);
    expect(await ended).toEqual([130, null]);
    expect(said.join(' ')).toMatch(/meter is being written; Ctrl-C again leaves it half written/);
    expect(await programOf(meter)).toBe('neither');
    expect(await views()).toMatchObject(halfWritten);
    await gateway.startDaemon();
    await gateway.run('--update-now');
    expect(await programOf(meter)).toBe('new');
    expect(await meter.applicationSays(3_000)).toBe('hello 2');
    expect((await gateway.run('status')).stdout).not.toMatch(/half written/);
    expect(await gateway.run('mcu', 'restore', 'meter')).toMatchObject({ exitCode: 0 });
    expect(await programOf(meter)).toBe('old');
  });

  test('by kill -9 is said by every view, and what stood on the board can be put back', async () => {
    await killWhileFlashing('mcu', 'flash', 'meter', file);
    expect(await programOf(meter)).toBe('neither');
    expect(await views()).toMatchObject(halfWritten);
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

test('a file without a signature is refused where nothing permits it', async () => {
  const file = join(gateway.directory, 'meter-2.hex');
  await writeFile(file, meters.new.hex);
  expect(await gateway.run('mcu', 'flash', 'meter', file)).toMatchObject({
    exitCode: 77,
    stderr: matching(/without a signature is not flashed/),
  });
  expect(await programOf(meter)).toBe('old');
});

function matchingAll(word: string): unknown {
  return expect.arrayContaining([word]);
}
