import { describe, expect, test } from 'vitest';

import { InterruptedError, listenForInterruption } from '../../../src/cli/interruption.ts';
import { ConfigError } from '../../../src/config/errors.ts';
import type { OperationOutcome } from '../../../src/control/events.ts';
import type { AgentOperations } from '../../../src/control/operations.ts';
import { AgentError, type ExitKind } from '../../../src/system/errors.ts';
import { type as typeAt, type FakeWorld } from './fake-context.ts';
import { ConductedOperation, calmStatus, fakeAgent, installCheck, troubledStatus } from './fake-operations.ts';

function type(line: string, world: FakeWorld = {}) {
  return typeAt(line === '' ? [] : line.split(' '), world);
}

function failing(exit: ExitKind): AgentError {
  return new AgentError({ code: 'some-code', message: 'it went wrong', remedy: 'give-up', exit, advice: 'mend it' });
}

describe('the exit code', () => {
  test.each<[ExitKind, number]>([
    ['usage', 64],
    ['unreachable', 69],
    ['failed', 70],
    ['disk', 74],
    ['tryAgain', 75],
    ['protocol', 76],
    ['refused', 77],
    ['configuration', 78],
  ])('of a failure of kind %s is %i', async (exit, code) => {
    const daemon = fakeAgent({ update: () => Promise.reject(failing(exit)) });
    const { exitCode, err } = await type('--update-now', { daemon });
    expect(exitCode).toBe(code);
    expect(err).toBe('agent: it went wrong (some-code)\n       mend it\n');
  });

  test.each<[string, OperationOutcome, number]>([
    ['--update-now', { kind: 'up-to-date', version: 'v1' }, 0],
    ['--update-now', { kind: 'installed', version: 'v1' }, 0],
    ['--update-now', { kind: 'reboot-required', version: 'v1', slot: 'B' }, 0],
    ['--update-now', { kind: 'rebooting', version: 'v1', slot: 'B' }, 0],
    ['--update-now', { kind: 'deferred', version: 'v1', code: 'quarantined', reason: 'it failed' }, 77],
    ['--update-now', { kind: 'rolled-back', version: 'v1', reason: 'it failed' }, 70],
    ['--update-now', { kind: 'rebooting', version: 'v1', slot: 'A', reason: 'unhealthy', goesBack: true }, 70],
    ['install a.mender', { kind: 'deferred', version: 'v1', code: 'quarantined', reason: 'it failed' }, 77],
    ['rollback', { kind: 'rolled-back', version: 'v1', reason: 'a person asked' }, 0],
    ['commit', { kind: 'rolled-back', version: 'v1', reason: 'too late' }, 70],
  ])('of %s that ends with %j is %i', async (line, outcome, code) => {
    const end = (): Promise<OperationOutcome> => Promise.resolve(outcome);
    const { exitCode } = await type(line, {
      daemon: fakeAgent({ update: end, install: end, rollback: end, commit: end }),
    });
    expect(exitCode).toBe(code);
  });

  test.each([
    ['', 0],
    ['--help', 0],
    ['--version', 0],
    ['status', 0],
    ['check', 0],
    ['doctor', 0],
    ['log --security', 0],
    ['activate', 0],
    ['reboot', 0],
    ['property get level', 0],
    ['property set level 5', 0],
    ['datapoint send level 5', 0],
    ['config check', 0],
    ['config show', 0],
    ['config schema', 0],
    ['stauts', 64],
    ['install', 64],
  ])('of «agent %s» is %i', async (line, code) => {
    expect((await type(line, { daemon: fakeAgent() })).exitCode).toBe(code);
  });

  test('of run is the daemon’s', async () => {
    expect((await type('run', { runDaemon: async () => 75 })).exitCode).toBe(75);
  });
});

describe('who does the work', () => {
  test('is the daemon if it runs', async () => {
    const daemon = fakeAgent();
    const alone = fakeAgent();
    await type('--update-now --no-reboot', { daemon, alone });
    expect(daemon.calls).toEqual([['update', { reboot: false, force: false }]]);
    expect(alone.calls).toEqual([]);
  });

  test('is this process without a daemon; its resources are released', async () => {
    const alone = fakeAgent();
    let released = 0;
    const local = async (): Promise<AgentOperations & AsyncDisposable> => ({
      ...alone,
      [Symbol.asyncDispose]: async () => {
        released += 1;
      },
    });
    await type('--update-now --force', { local });
    expect(alone.calls).toEqual([['update', { reboot: true, force: true }]]);
    expect(released).toBe(1);
  });

  test('is unavailable if the user may not use the daemon', async () => {
    const alone = fakeAgent();
    const { exitCode } = await type('status', { connect: () => Promise.reject(failing('refused')), alone });
    expect(exitCode).toBe(77);
    expect(alone.calls).toEqual([]);
  });
});

// Regression: a German decimal comma made a text of a number without any note.
test.each([
  ['datapoint send level 21,5', 'Note: 21,5 is not a JSON number, so it is sent as text.\n'],
  ['property set level 1_000', 'Note: 1_000 is not a JSON number, so it is sent as text.\n'],
  ['datapoint send level 21,5 --text', ''],
])('agent %s warns about a text that looks like a number: %j', async (line, note) => {
  expect((await type(line, { daemon: fakeAgent() })).err).toBe(note);
});

test('each command requests the typed operation', async () => {
  const daemon = fakeAgent();
  await type('install ../usb/a.mender --force', { daemon });
  await type('rollback --no-reboot', { daemon });
  await type('commit', { daemon });
  await type('property set level 5', { daemon });
  await type('datapoint send level {"low":1} --at 2026-03-01T14:05:09Z', { daemon });
  await type('datapoint send level 6', { daemon });
  expect(daemon.calls).toEqual([
    ['install', { path: '/home/usb/a.mender', reboot: true, force: true }],
    ['rollback', { reboot: false, force: false }],
    ['commit', {}],
    ['setProperty', { id: 'level', value: 5 }],
    ['sendDatapoint', { event: 'level', value: { low: 1 }, at: '2026-03-01T14:05:09.000Z' }],
    ['sendDatapoint', { event: 'level', value: 6 }],
  ]);
});

type TakenList = Extract<OperationOutcome, { kind: 'installed' }>['trustList'];

function taking(list: TakenList): AgentOperations {
  return fakeAgent({ install: async () => ({ kind: 'installed', version: 'trust-3', trustList: list }) });
}

describe('a user reads', () => {
  test.each<[string, FakeWorld, string]>([
    [
      'status',
      { daemon: fakeAgent({ status: async () => troubledStatus }) },
      'gateway-1.4.2 is running. The update to',
    ],
    ['check', {}, 'gateway-1.5.0 would be installed: agent --update-now'],
    ['--update-now', {}, 'Nothing to do: gateway-1.4.2 is installed.'],
    ['rollback', {}, 'gateway-1.5.0 was rolled back: a person asked for it'],
    [
      'install a.mender',
      { daemon: taking({ number: 3, keys: ['next.pem'], revokedKeys: 1, unknownKeys: 0, revokedReleases: 2 }) },
      'Done: trust list 3 is in effect: +next.pem, 1 key and 2 releases revoked.',
    ],
    [
      'install a.mender',
      { daemon: taking({ number: 3, keys: [], revokedKeys: 0, unknownKeys: 0, revokedReleases: 0 }) },
      'Done: trust list 3 is in effect: no changes.',
    ],
    [
      'install a.mender',
      { daemon: taking({ number: 3, keys: [], revokedKeys: 2, unknownKeys: 1, revokedReleases: 0 }) },
      'Done: trust list 3 is in effect: 2 keys revoked. Warning: 1 revoked key matches no known key.',
    ],
    ['activate', {}, 'Activated: serial number GW-0001 has Thing ID thing-1.'],
    ['reboot', {}, 'The gateway is rebooting.'],
    ['property get level', {}, '21.5\n'],
    ['property get note', { alone: fakeAgent({ property: async () => ({ value: 'two\nlines' }) }) }, 'two\\nlines\n'],
    ['property set level 5', {}, 'Set: level.'],
    ['datapoint send level 5', {}, 'Sent to level.'],
    [
      'datapoint send level 5',
      { daemon: fakeAgent({ sendDatapoint: async () => ({ safeAt: 'disk' }) }) },
      'Queued on disk; sent to level as soon as the service accepts it.',
    ],
    [
      'property set level 5',
      { daemon: fakeAgent({ setProperty: async () => ({ safeAt: 'disk' }) }) },
      'Queued on disk; level is sent as soon as the service accepts it.',
    ],
    ['config check', {}, '/etc/thing-agent/config.toml is valid.'],
    ['config show', {}, '[service]\nurl = "https://things.example.com"\n'],
    ['config schema', {}, '{\n  "type": "object"\n}\n'],
    ['--version', {}, 'agent 0.1.0\n'],
    ['--help', {}, 'usage: agent'],
  ])('after «agent %s» on stdout: %#', async (line, world, told) => {
    const { out } = await type(line, world);
    expect(out).toContain(told);
  });

  test('a usage error on stderr, with a suggestion', async () => {
    const { out, err } = await type('stauts');
    expect(out).toBe('');
    expect(err).toBe('agent: unknown command "stauts"\n       did you mean status? all commands: agent --help\n');
  });

  test('a defect as one line without a stack', async () => {
    const daemon = fakeAgent({ status: () => Promise.reject(new TypeError('x is not a function\n    at y')) });
    const { exitCode, err } = await type('status', { daemon });
    expect(exitCode).toBe(70);
    expect(err).toBe('agent: unexpected failure: x is not a function (internal-error)\n');
  });
});

describe('a program reads one object per line:', () => {
  test.each<[string, unknown[]]>([
    ['status', [JSON.parse(JSON.stringify(calmStatus))]],
    ['check', [JSON.parse(JSON.stringify(installCheck))]],
    ['--update-now', [{ kind: 'result', outcome: { kind: 'up-to-date', version: 'gateway-1.4.2' } }]],
    ['activate', [{ serialNumber: 'GW-0001', thingId: 'thing-1' }]],
    ['reboot', [{ rebooting: true }]],
    ['property get level', [{ id: 'level', value: 21.5 }]],
    ['property set level 5', [{ id: 'level', value: 5 }]],
    ['datapoint send level 5', [{ event: 'level', value: 5 }]],
    ['config check', [{ valid: true, path: '/etc/thing-agent/config.toml', warnings: [] }]],
    ['config show', [{ service: {} }]],
    ['config schema', [{ type: 'object' }]],
    ['--version', [{ version: '0.1.0' }]],
    [
      'stauts',
      [
        {
          kind: 'error',
          error: {
            code: 'usage',
            message: 'unknown command "stauts"',
            exit: 'usage',
            advice: 'did you mean status? all commands: agent --help',
          },
        },
      ],
    ],
  ])('agent %s --json', async (line, objects) => {
    const { out, err } = await type(`${line} --json`, { daemon: fakeAgent() });
    expect(err).toBe('');
    expect(
      out
        .trimEnd()
        .split('\n')
        .map((text) => JSON.parse(text) as unknown),
    ).toEqual(objects);
  });

  test('a failure too', async () => {
    const daemon = fakeAgent({ check: () => Promise.reject(failing('unreachable')) });
    const { out, err, exitCode } = await type('check --json', { daemon });
    expect(exitCode).toBe(69);
    expect(err).toBe('');
    expect(JSON.parse(out)).toEqual({
      kind: 'error',
      error: { code: 'some-code', message: 'it went wrong', exit: 'unreachable', advice: 'mend it' },
    });
  });
});

describe('config check', () => {
  const problems = Array.from({ length: 25 }, (_, n) => ({ line: n + 1, message: `update.x${n} is not known` }));
  const check = () => Promise.reject(new ConfigError('config-invalid', 'c.toml', problems));
  const config = { check, show: check, schema: check };

  test('names each wrong line and ends with 78', async () => {
    const { exitCode, out } = await type('config check', { config });
    expect(exitCode).toBe(78);
    expect(out).toContain('c.toml:1: update.x0 is not known\nc.toml:2: update.x1 is not known\n');
    expect(out).toContain('and 5 more');
  });

  test('tells a program the same', async () => {
    const { exitCode, out } = await type('config check --json', { config });
    expect(exitCode).toBe(78);
    expect(JSON.parse(out)).toMatchObject({ valid: false, path: 'c.toml', omitted: 5 });
  });

  test('warns about weaker guarantees', async () => {
    const weak = async () => ({ path: 'c.toml', warnings: ['unsigned firmware may be installed'] });
    const { out } = await type('config check', { config: { ...config, check: weak } });
    expect(out).toBe('c.toml is valid.\nWarning: unsigned firmware may be installed\n');
  });
});

describe('doctor', () => {
  test('ends with 70 when a test fails', async () => {
    const daemon = fakeAgent({
      doctor: async () => ({ findings: [{ name: 'clock', ok: false, detail: 'it is not set' }] }),
    });
    const { exitCode, out } = await type('doctor', { daemon });
    expect(exitCode).toBe(70);
    expect(out).toContain('FAIL  clock   it is not set');
    expect(out).toContain('ok    daemon  running and responding');
  });

  test('exits with 1 when there are only warnings', async () => {
    const warning = { name: 'watchdog', ok: true, isWarning: true, detail: 'none', advice: 'load its driver' };
    const daemon = fakeAgent({ doctor: async () => ({ findings: [warning] }) });
    const { exitCode, out } = await type('doctor', { daemon });
    expect(exitCode).toBe(1);
    expect(out).toContain('WARN  watchdog');
  });

  test('finds that no daemon runs, and runs diagnostics directly', async () => {
    const { exitCode, out } = await type('doctor');
    expect(exitCode).toBe(70);
    expect(out).toContain('FAIL  daemon  the daemon is not running');
    expect(out).toContain('ok    clock');
  });

  test('finds that it may not examine', async () => {
    const { exitCode, out } = await type('doctor --json', { connect: () => Promise.reject(failing('refused')) });
    expect(exitCode).toBe(70);
    expect(JSON.parse(out)).toEqual({
      findings: [{ name: 'agent', ok: false, detail: 'it went wrong (some-code)', advice: 'mend it' }],
    });
  });
});

describe('Ctrl-C', () => {
  async function interrupted(line: string, whose: 'daemon' | 'alone') {
    const operation = new ConductedOperation();
    const agent = fakeAgent({ update: (_options, onEvent, signal) => operation.run(onEvent, signal) });
    const controller = new AbortController();
    const ending = type(line, { [whose]: agent, signal: controller.signal });
    await operation.begun;
    controller.abort(new InterruptedError('SIGINT'));
    return ending;
  }

  test('leaves a busy daemon alone and reports that', async () => {
    const { exitCode, err } = await interrupted('--update-now', 'daemon');
    expect(exitCode).toBe(130);
    expect(err).toBe(
      'agent: interrupted; the operation continues in the daemon\n       to see its progress: agent status\n',
    );
  });

  test('does not claim that the daemon continues with a file that was received only in part', async () => {
    const operation = new ConductedOperation();
    const daemon = fakeAgent({
      install: async ({ file }, onEvent, signal) => {
        await file.read(signal)[Symbol.asyncIterator]().next();
        return operation.run(onEvent, signal);
      },
    });
    const controller = new AbortController();
    const ending = type('install a.mender', { daemon, signal: controller.signal });
    await operation.begun;
    controller.abort(new InterruptedError('SIGINT'));
    expect(await ending).toMatchObject({ exitCode: 130, err: 'agent: interrupted\n' });
  });

  test('ends what this process does', async () => {
    const { exitCode, err } = await interrupted('--update-now', 'alone');
    expect(exitCode).toBe(130);
    expect(err).toBe('agent: interrupted\n');
  });

  test('is passed to a program', async () => {
    expect((await interrupted('--update-now --json', 'daemon')).out).toBe('{"kind":"interrupted","goesOn":true}\n');
    expect((await interrupted('--update-now --json', 'alone')).out).toBe('{"kind":"interrupted","goesOn":false}\n');
  });
});

describe('interruptions', () => {
  function fakeProcess() {
    const listeners = new Map<string, () => void>();
    const exits: number[] = [];
    return {
      exits,
      listeners,
      on: (name: string, listener: () => void) => listeners.set(name, listener),
      off: (name: string) => listeners.delete(name),
      exit: (code: number) => exits.push(code),
    };
  }

  test('abort first, and exit immediately the second time', () => {
    const fake = fakeProcess();
    using interruption = listenForInterruption(fake);
    fake.listeners.get('SIGINT')?.();
    expect(interruption.signal.reason).toMatchObject({ exitCode: 130 });
    expect(fake.exits).toEqual([]);
    fake.listeners.get('SIGINT')?.();
    expect(fake.exits).toEqual([130]);
  });

  test('by SIGTERM end with 143, and are listened for no longer than needed', () => {
    const fake = fakeProcess();
    {
      using interruption = listenForInterruption(fake);
      fake.listeners.get('SIGTERM')?.();
      expect(interruption.signal.reason).toMatchObject({ exitCode: 143 });
    }
    expect(fake.listeners.size).toBe(0);
  });
});
