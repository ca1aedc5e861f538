import { describe, expect, test } from 'vitest';

import { AgentError } from '../../../../src/system/errors.ts';
import { ProgramError } from '../../../../src/system/processes/child-process.ts';
import type { ProgramResult } from '../../../../src/system/processes/child-process.ts';
import { longestHealthMs, createHealthGate } from '../../../../src/update/trial/health.ts';
import type { HealthPorts, HealthSettings } from '../../../../src/update/trial/health.ts';

const signal = new AbortController().signal;
const nothing: HealthSettings = { deadlineMs: 10_000, commands: [], units: [], stableForMs: 10_000, service: false };

/** A clock that moves only during waits; programs and the service answer from lists, whose last entry repeats. */
function portsWith(answers: {
  programs?: readonly (ProgramResult | ProgramError)[];
  service?: readonly (AgentError | undefined)[];
}): {
  readonly ports: HealthPorts;
  readonly asked: string[][];
} {
  let nowMs = 0;
  const asked: string[][] = [];
  let serviceCalls = 0;
  const ports: HealthPorts = {
    clock: {
      nowMs: () => nowMs,
      monotonicMs: () => nowMs,
      sleep: async (ms) => {
        nowMs += ms;
      },
    },
    run: async (command) => {
      const answer = answers.programs?.[Math.min(asked.length, answers.programs.length - 1)];
      asked.push([...command]);
      if (answer instanceof ProgramError) throw answer;
      return answer ?? { exitCode: 0, stdout: '', stderr: '' };
    },
    reachService: async () => {
      const answer = answers.service?.[Math.min(serviceCalls, answers.service.length - 1)];
      serviceCalls += 1;
      if (answer !== undefined) throw answer;
    },
  };
  return { ports, asked };
}

const ok: ProgramResult = { exitCode: 0, stdout: '', stderr: '' };
const down = new AgentError({ code: 'service-unavailable', message: 'status 503', remedy: 'retry', exit: 'tryAgain' });
const unreachable = new AgentError({ code: 'x', message: 'nobody answers', remedy: 'retry', exit: 'unreachable' });

/** Output of systemctl show for a healthy unit. */
function shown(differences: Readonly<Record<string, string>> = {}): ProgramResult {
  const properties = {
    LoadState: 'loaded',
    ActiveState: 'active',
    SubState: 'running',
    InvocationID: '1',
    ...differences,
  };
  return {
    ...ok,
    stdout: Object.entries(properties)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  };
}

describe('the health gate', () => {
  test('passes immediately without a check', async () => {
    expect(await createHealthGate(nothing, portsWith({}).ports).check(signal)).toBeUndefined();
  });

  test('asks again until a command succeeds', async () => {
    const { ports, asked } = portsWith({ programs: [{ ...ok, exitCode: 1 }, { ...ok, exitCode: 1 }, ok] });
    const gate = createHealthGate({ ...nothing, commands: [['/usr/lib/app/healthy', '-q']] }, ports);
    expect(await gate.check(signal)).toBeUndefined();
    expect(asked).toHaveLength(3);
  });

  test('at its deadline reports the last failure: the command and its output', async () => {
    const { ports } = portsWith({ programs: [{ exitCode: 3, stdout: '', stderr: 'first\nno sensor found\n' }] });
    const gate = createHealthGate({ ...nothing, commands: [['healthy', '-q']] }, ports);
    expect(await gate.check(signal)).toEqual({ code: 'unhealthy', reason: 'healthy -q: exit code 3, no sensor found' });
  });

  // Regression: "sh: no end within 14 ms", the last attempt, interrupted by the deadline, with the name of the program
  // that ran it for its user.
  test('reports the command’s output, instead of the interruption by the deadline, unless there is no other reason', async () => {
    const late = new ProgramError('program-timeout', 'sh', 'no end within 14 ms');
    const gate = (programs: readonly (ProgramResult | ProgramError)[]) =>
      createHealthGate({ ...nothing, commands: [['healthy', '-q']] }, portsWith({ programs }).ports);
    const said = { exitCode: 3, stdout: '', stderr: 'the press is cold\n' };
    expect((await gate([said, late]).check(signal))?.reason).toBe('healthy -q: exit code 3, the press is cold');
    expect((await gate([late]).check(signal))?.reason).toBe('healthy -q: no end within 10000 ms');
  });

  test('wants each unit active', async () => {
    const { ports, asked } = portsWith({ programs: [shown({ ActiveState: 'activating', SubState: 'auto-restart' })] });
    const complaint = await createHealthGate({ ...nothing, units: ['app.service'] }, ports).check(signal);
    expect(complaint).toEqual({ code: 'unhealthy', reason: 'app.service is activating (auto-restart)' });
    expect(asked[0]).toEqual([
      'systemctl',
      'show',
      '--property=LoadState,ActiveState,SubState,InvocationID',
      '--',
      'app.service',
    ]);
  });

  test('reports an unknown unit as such, not as inactive', async () => {
    const { ports } = portsWith({ programs: [shown({ LoadState: 'not-found', ActiveState: 'inactive' })] });
    const complaint = await createHealthGate({ ...nothing, units: ['ap.service'] }, ports).check(signal);
    expect(complaint).toEqual({ code: 'unhealthy', reason: 'there is no unit ap.service' });
  });

  // Regression: an application that ended four seconds after each start was kept after one.
  test('is not passed by a unit that is started again and again, which is active in between', async () => {
    const programs = Array.from({ length: 40 }, (_, at) => shown({ InvocationID: String(Math.floor(at / 3)) }));
    const { ports } = portsWith({ programs });
    const gate = createHealthGate({ ...nothing, units: ['app.service'] }, ports);
    expect(await gate.check(signal)).toEqual({
      code: 'unhealthy',
      reason: 'app.service was active, and was started again within 10 s',
    });
  });

  test('is passed by a unit that is the same for long enough, though that is beyond the deadline', async () => {
    const { ports } = portsWith({
      programs: [...Array<ProgramResult>(3).fill(shown({ ActiveState: 'inactive' })), shown()],
    });
    const settings = { ...nothing, deadlineMs: 8_000, units: ['app.service'] };
    expect(await createHealthGate(settings, ports).check(signal)).toBeUndefined();
    expect(ports.clock.monotonicMs()).toBe(16_000);
    expect(longestHealthMs(settings)).toBe(18_000);
  });

  test('waits for the service to come within reach', async () => {
    const { ports } = portsWith({ service: [unreachable, unreachable, undefined] });
    expect(await createHealthGate({ ...nothing, service: true }, ports).check(signal)).toBeUndefined();
  });

  test('complains where the service never comes within reach', async () => {
    const { ports } = portsWith({ service: [unreachable] });
    const gate = createHealthGate({ ...nothing, service: true }, ports);
    expect(await gate.check(signal)).toEqual({ code: 'service-unreached', reason: 'nobody answers' });
    expect(await gate.reachesService(signal)).toBe(false);
  });

  test('distinguishes a service that reports an outage from an unreachable one', async () => {
    const { ports } = portsWith({ service: [down] });
    const gate = createHealthGate({ ...nothing, service: true }, ports);
    expect(await gate.check(signal)).toEqual({ code: 'service-down', reason: 'status 503' });
  });

  test('blames the firmware for its own command, whatever the service does', async () => {
    const { ports } = portsWith({ programs: [{ ...ok, exitCode: 1 }], service: [down] });
    const gate = createHealthGate({ ...nothing, commands: [['healthy']], service: true }, ports);
    expect(await gate.check(signal)).toMatchObject({ code: 'unhealthy' });
  });

  test('asks for the service alone until it comes within reach', async () => {
    const { ports, asked } = portsWith({ programs: [{ ...ok, exitCode: 1 }], service: [unreachable, undefined] });
    const gate = createHealthGate({ ...nothing, commands: [['healthy']], service: true }, ports);
    expect(await gate.reachesService(signal)).toBe(true);
    expect(asked).toEqual([]);
  });

  test('ends with the signal, without a verdict', async () => {
    const { ports } = portsWith({ service: [unreachable] });
    const aborted = AbortSignal.abort(new Error('stopping'));
    const gate = createHealthGate({ ...nothing, service: true }, ports);
    await expect(gate.check(aborted)).rejects.toThrow('stopping');
  });
});
