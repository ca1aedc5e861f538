import { execFile } from 'node:child_process';
import { chmod, chown, lstat, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, describe, expect, test } from 'vitest';

import { FileGateway, stop } from '../../../fakes/machine/file-gateway.ts';
import { versionsOf } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { testInFull } from '../../../full-run.ts';
import { howMuch } from '../../../full.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { LoopDevice } from '../../slots/loop-device.ts';

const run = promisify(execFile);
const SLOT_BYTES = 409_600;

function image(text: string): Buffer {
  return Buffer.alloc(200_000, `${text}\n`, 'latin1');
}

let service: StandIn;
let gateway: FileGateway;

beforeEach(async () => {
  const firmware = { v1: image('healthy 1'), v2: image('healthy 2'), bad: image('unhealthy') };
  const versions = versionsOf(firmware);
  service = untilTestEnds(await startStandIn({ versions, currentVersionId: 'v1' }));
  gateway = await gatewayWith(undefined);
});

async function gatewayWith(slots: { readonly A: string; readonly B: string } | undefined): Promise<FileGateway> {
  const options = { serviceUrl: service.url, image: image('healthy 0'), updateToml: 'trial_attempts = 1' };
  return untilTestEnds(await FileGateway.create({ ...options, slotBytes: SLOT_BYTES, ...(slots && { slots }) }));
}

/** Typed, as vitest's own is not. */
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

function inGateway(name: string): string {
  return join(gateway.directory, name);
}

function bootEnvironment(): Promise<string> {
  return readFile(inGateway('boot/environment'), 'utf8');
}

function lastOutcome(): unknown {
  return service.world.things[0]?.properties.get('update_outcome');
}

async function mount(...args: readonly string[]): Promise<void> {
  await run('mount', args);
}

/** A mount at the state directory disappears with the machine. */
async function unmountState(): Promise<void> {
  await run('umount', ['-q', inGateway('state')]).catch((error: unknown) => {
    if (!(error instanceof Error)) throw error;
  });
}

interface Habit {
  readonly make: () => Promise<void>;
  readonly undo: () => Promise<void>;
  /** The slots must be devices. Default: files. */
  readonly onDevices?: true;
}

/** How a new slot may find its state directory, made from the good one. */
const habits: Readonly<Record<string, Habit>> = {
  'empty, as systemd makes one where nothing is mounted': {
    make: async () => {
      await rename(inGateway('state'), inGateway('state-of-a'));
      await mkdir(inGateway('state'));
    },
    undo: async () => {
      await rm(inGateway('state'), { recursive: true });
      await rename(inGateway('state-of-a'), inGateway('state'));
    },
  },
  'no directory at all': {
    make: async () => {
      await rename(inGateway('state'), inGateway('state-of-a'));
      await writeFile(inGateway('state'), '');
    },
    undo: async () => {
      await rm(inGateway('state'));
      await rename(inGateway('state-of-a'), inGateway('state'));
    },
  },
  'read-only': {
    make: async () => {
      await mount('--bind', inGateway('state'), inGateway('state'));
      await mount('-o', 'remount,ro,bind', inGateway('state'));
    },
    undo: unmountState,
  },
  // An existing journal would be believed: its trial is unfinished.
  'in memory': {
    onDevices: true,
    make: async () => {
      const journal = await readFile(inGateway('state/journal.json'));
      await mount('-t', 'tmpfs', 'tmpfs', inGateway('state'));
      await writeFile(inGateway('state/journal.json'), journal);
    },
    undo: unmountState,
  },
  full: {
    make: async () => {
      const journal = await readFile(inGateway('state/journal.json'));
      await mount('-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', inGateway('state'));
      await writeFile(inGateway('state/journal.json'), journal);
      await run('dd', ['if=/dev/zero', `of=${inGateway('state/ballast')}`]).catch((error: unknown) => {
        if (!(error instanceof Error)) throw error;
      });
    },
    undo: unmountState,
  },
};

/** In part: a state that will be lost, and one with another error code. */
const someHabits = new Set(['in memory', 'full']);
const trials = Object.entries(habits).filter(([name]) => howMuch(true, someHabits.has(name)));

describe('a trial whose state directory is', () => {
  test.each(trials)('%s: is left, and the old slot reports it', async (name, { make, undo, onDevices }) => {
    if (onDevices === true) {
      const A = untilTestEnds(await LoopDevice.attach(SLOT_BYTES));
      const B = untilTestEnds(await LoopDevice.attach(SLOT_BYTES));
      gateway = await gatewayWith({ A: A.path, B: B.path });
    }
    await gateway.run('--update-now');
    let trials = 0;
    for (let boots = 0; gateway.rebootRequested && boots < 8; boots += 1) {
      const slot = gateway.boot();
      const isTrial = slot === 'B';
      if (isTrial) await make();
      await gateway.run('--update-now');
      if (isTrial) await undo();
      expect(isTrial && !gateway.rebootRequested).toBe(false);
      trials += Number(isTrial);
    }
    expect(trials).toBeGreaterThan(0);
    expect(gateway.boot()).toBe('A');
    expect(await bootEnvironment()).toMatch(/^ORDER="A"/);
    const code = name === 'full' ? 'disk-full' : 'state-unavailable';
    expect(lastOutcome()).toMatchObject({ outcome: 'rolled-back', code });
  });

  // Regression: committed in less than a second, with a health command that fails and the service down.
  test('empty: is not committed, whatever its health and the service', async () => {
    service.world.targetVersionId = 'bad';
    await gateway.run('--update-now');
    expect(gateway.boot()).toBe('B');
    const before = await bootEnvironment();
    await habits['empty, as systemd makes one where nothing is mounted']?.make();
    await service[Symbol.asyncDispose]();
    await gateway.run('--update-now');
    expect(gateway.rebootRequested).toBe(true);
    expect(before).toContain('B_LEFT=0');
    expect(await bootEnvironment()).toContain('B_LEFT=0');
  });
});

describe('a committed slot', () => {
  async function installed(): Promise<void> {
    await gateway.run('--update-now');
    expect(gateway.boot()).toBe('B');
    await gateway.run('--update-now');
    expect(lastOutcome()).toMatchObject({ outcome: 'installed' });
  }

  // Regression: marked unbootable after five minutes without the service.
  test('is kept with a damaged journal and a service that is away', async () => {
    await installed();
    await service[Symbol.asyncDispose]();
    await writeFile(inGateway('state/journal.json'), '{"format":1,"pha');
    const before = await bootEnvironment();
    await gateway.run('--update-now');
    expect(gateway.rebootRequested).toBe(false);
    expect(await bootEnvironment()).toBe(before);
    const { problems } = (await gateway.json('status')) as { problems: string[] };
    expect(problems).toContain('journal-lost');
    expect((await gateway.run('doctor')).stdout).toMatch(/WARN +journal /);
  });

  testInFull('is kept with the journal of a newer agent, whose quarantine holds', async () => {
    await installed();
    const journal = JSON.parse(await readFile(inGateway('state/journal.json'), 'utf8')) as Record<string, unknown>;
    const at = new Date().toISOString();
    const quarantine = [{ version: { id: 'v2', name: 'v2' }, code: 'unhealthy', reason: 'it leaks', at, until: 7 }];
    const ofNext = { ...journal, phase: { kind: 'dreaming' }, quarantine, dreams: ['of electric sheep'] };
    await writeFile(inGateway('state/journal.json'), JSON.stringify(ofNext));
    service.world.targetVersionId = 'v2';
    expect(await gateway.run('--update-now')).toMatchObject({ exitCode: 77, stdout: matching(/it leaks/) });
    expect(JSON.parse(await readFile(inGateway('state/journal.json'), 'utf8'))).toMatchObject({
      phase: { kind: 'idle' },
      quarantine,
      dreams: ['of electric sheep'],
      installed: journal['installed'],
    });
  });
});

describe('a daemon without a state directory', () => {
  test('runs, reports it, installs nothing, and continues when there is one', async () => {
    await writeFile(inGateway('state'), 'no directory');
    const lines: string[] = [];
    const daemon = await gateway.startDaemon((line) => lines.push(line));
    const refused = await gateway.run('--update-now');
    expect(refused).toMatchObject({ exitCode: 74, stderr: matching(/state/) });
    expect(service.world.things).toHaveLength(1);
    expect(await gateway.run('status')).toMatchObject({ stdout: matching(/the state directory cannot be used/) });
    expect(lines.join('\n')).toMatch(/the state directory cannot be used, so nothing is installed/);
    expect(await gateway.run('doctor')).toMatchObject({ stdout: matching(/state directory/) });
    await rm(inGateway('state'));
    await gateway.run('--update-now');
    expect(gateway.rebootRequested).toBe(true);
    expect(await readFile(inGateway('state/identity.json'), 'utf8')).toContain('apiKey');
    expect(await stop(daemon)).toBe(0);
  });
});

// Regression: `agent status` reported no problem, except for the missing daemon.
describe('status without a daemon reports what the next write would meet, and writes nothing', () => {
  async function inMemory(options: string): Promise<void> {
    const journal = await readFile(inGateway('state/journal.json'));
    await mount('-t', 'tmpfs', '-o', options, 'tmpfs', inGateway('state'));
    await writeFile(inGateway('state/journal.json'), journal);
  }

  const more: Readonly<Record<string, Habit>> = {
    'full of files': { make: async () => inMemory('nr_inodes=2'), undo: unmountState },
    'at its best': { make: async () => inMemory('size=64k'), undo: unmountState },
  };

  const told = [
    ['read-only', 2, /the state directory cannot be used, so nothing is installed: .*EROFS/],
    ['at its best', 1, /^(?!.*the state directory cannot be used)/],
    ['full', 2, /the state directory cannot be used, so nothing is installed: .*the disk is full/],
    ['no directory at all', 2, /the state directory cannot be used, so nothing is installed: .*ENOTDIR/],
    ['full of files', 2, /the state directory cannot be used, so nothing is installed: .*the disk is full/],
  ] as const;

  test.each(told.slice(0, howMuch(told.length, 2)))('%s', async (name, code, said) => {
    await gateway.run('--update-now');
    const { make, undo } = { ...habits, ...more }[name] ?? {};
    await make?.();
    const { mtimeMs } = await stat(inGateway('state'));
    const { exitCode, stdout } = await gateway.run('status', '--exit-code');
    expect(await stat(inGateway('state'))).toMatchObject({ mtimeMs });
    await undo?.();
    expect([exitCode, stdout.replaceAll(/\s+/g, ' ')]).toEqual([code, matching(said)]);
  });
});

/** Waits until no check is in progress. */
async function statusAtRest(): Promise<string> {
  const status = async (): Promise<string> => (await gateway.run('status')).stdout;
  await expect.poll(status, { interval: 100 }).not.toContain('Busy');
  return status();
}

// Regression: `agent status` hung, and SIGTERM did not end it.
describe('a pipe instead of a state file', () => {
  const pipes = [
    // It is set aside, and the daemon continues.
    ['journal.json', 'WARN journal'],
    ['queue.db', 'state directory'],
    // The service is contacted before a staged update boots: the gateway activates once more, and stores that.
    ['identity.json', 'knows this gateway as Thing ID'],
    ['trust.json', 'it is not a regular file'],
  ] as const;

  test.each(pipes.slice(0, howMuch(pipes.length, 1)))('holds up nobody: %s', async (name, said) => {
    await gateway.run('--update-now');
    const path = inGateway(`state/${name}`);
    await rm(path, { force: true });
    await run('mkfifo', [path]);
    await gateway.run('status');
    const daemon = await gateway.startDaemon(() => {});
    const text = (await statusAtRest()) + (await gateway.run('doctor')).stdout;
    expect(text.replaceAll(/\s+/g, ' ')).toContain(said);
    expect(await stop(daemon)).toBe(0);
  });
});

// Regression: nothing was installed until an operator removed it; later, a support bundle moved it.
describe('something other than a file instead of the journal', () => {
  async function plant(how: (path: string) => Promise<unknown>): Promise<number> {
    await gateway.run('--update-now');
    expect(gateway.boot()).toBe('B');
    await gateway.run('--update-now');
    await rm(inGateway('state/journal.json'));
    await how(inGateway('state/journal.json'));
    service.world.targetVersionId = 'v2';
    return (await lstat(inGateway('state/journal.json'))).ino;
  }

  async function besideJournal(): Promise<readonly string[]> {
    return (await readdir(inGateway('state'))).filter((name) => /^journal\.json(?!\.new)/.test(name)).toSorted();
  }

  testInFull('a pipe: a read-only command reports it and leaves it there; the next update succeeds', async () => {
    const ino = await plant(async (path) => run('mkfifo', [path]));
    const status = await gateway.run('status', '--exit-code');
    expect(status).toMatchObject({ exitCode: 2, stdout: matching(/the journal of updates could not be read/) });
    const doctor = await gateway.run('doctor');
    expect(doctor).toMatchObject({ exitCode: 70, stdout: matching(/journal .*\s.*it is not a regular file/) });
    expect(doctor.stdout.replaceAll(/\s+/g, ' ')).toContain('sets it aside, and begins a new record');
    const report = await gateway.run('support-bundle', inGateway('report.tar.gz'));
    expect(report.stdout).toMatch(/Missing.* journal/);
    expect(await besideJournal()).toEqual(['journal.json']);
    expect((await lstat(inGateway('state/journal.json'))).ino).toBe(ino);

    await gateway.run('--update-now');
    expect(await besideJournal()).toEqual(['journal.json', 'journal.json.unusable']);
    expect((await lstat(inGateway('state/journal.json.unusable'))).ino).toBe(ino);
    expect(gateway.rebootRequested).toBe(true);
    gateway.boot();
    await gateway.run('--update-now');
    expect(lastOutcome()).toMatchObject({ outcome: 'installed', version: 'v2' });
    const after = await gateway.run('status');
    expect(after.stdout).not.toMatch(/could not be read/);
  });

  test('a directory: a daemon sets it aside automatically, and updates', async () => {
    await plant(async (path) => mkdir(join(path, 'within'), { recursive: true }));
    const lines: string[] = [];
    const daemon = await gateway.startDaemon((line) => lines.push(line));
    await gateway.rebootRequest(AbortSignal.timeout(60_000));
    expect(await stop(daemon)).toBe(0);
    expect(await readdir(inGateway('state/journal.json.unusable'))).toEqual(['within']);
    expect(lines.join('\n')).toContain('not a journal: set aside');
    gateway.boot();
    await gateway.run('--update-now');
    expect(lastOutcome()).toMatchObject({ outcome: 'installed', version: 'v2' });
  });
});

describe('a state directory that others may write', () => {
  const STRANGER = 65_534;
  const said = matching(/is not trusted: .* fix it with: ch/);

  async function told(): Promise<readonly unknown[]> {
    const check = await gateway.run('config', 'check');
    const doctor = await gateway.run('doctor');
    return [check.exitCode, ...[check.stderr, doctor.stdout].map((text) => text.replaceAll(/\s+/g, ' '))];
  }

  test('is fixed and logged if it is ours', async () => {
    await mkdir(inGateway('state'));
    await chmod(inGateway('state'), 0o777);
    expect(await gateway.run('config', 'check')).toMatchObject({ exitCode: 78, stderr: matching(/chmod go-w/) });
    const lines: string[] = [];
    const daemon = await gateway.startDaemon((line) => lines.push(line));
    expect(lines.join('\n')).toMatch(/others may write .*state/);
    expect((await stat(inGateway('state'))).mode & 0o777).toBe(0o755);
    expect(await gateway.run('config', 'check')).toMatchObject({ exitCode: 0 });
    expect(await stop(daemon)).toBe(0);
  });

  test.each(howMuch(['state', 'state/journal.json'], ['state/journal.json']))(
    'is reported, and blocks no user, if another user owns %s',
    async (name) => {
      await gateway.run('--update-now');
      await chown(inGateway(name), STRANGER, STRANGER);
      expect(await told()).toEqual([78, said, said]);
      const lines: string[] = [];
      const daemon = await gateway.startDaemon((line) => lines.push(line));
      expect(lines.join('\n')).toMatch(/chown root:/);
      expect((await gateway.run('status')).stdout.replaceAll(/\s+/g, ' ')).toContain('fix it with: chown root:');
      expect(await stop(daemon)).toBe(0);
    },
  );
});

/** A slot that is mounted, as the running one is, with the state directory in it. */
