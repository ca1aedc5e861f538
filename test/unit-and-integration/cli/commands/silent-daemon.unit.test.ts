import { expect, test } from 'vitest';

import type { DaemonAbsence } from '../../../../src/cli/context.ts';
import { ControlError } from '../../../../src/control/control-errors.ts';
import type { StatusReport } from '../../../../src/control/reports.ts';
import { type } from '../fake-context.ts';
import { calmStatus, fakeAgent } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

const silentStatus: StatusReport = {
  ...calmStatus,
  daemon: false,
  state: 'needs-attention',
  problems: ['daemon-unresponsive'],
  phase: 'trial',
};

/** A daemon that was stopped by a signal: it runs, and gives no answer. */
async function typeBesideSilent(...args: readonly string[]) {
  const looks: DaemonAbsence[] = [];
  const local: string[] = [];
  const alone = { ...fakeAgent(), status: async () => silentStatus };
  const told = await type(args, {
    connect: async () => {
      throw new ControlError('daemon-unresponsive', 'the daemon does not answer');
    },
    readOnly: async (daemon) => {
      looks.push(daemon);
      return { ...alone, [Symbol.asyncDispose]: async () => {} };
    },
    local: async () => {
      local.push('opened');
      return { ...alone, [Symbol.asyncDispose]: async () => {} };
    },
  });
  return { ...told, looks, local };
}

// Regression: kill -STOP of the daemon; each of them showed nothing for 151 s, and then an error.
test.each([['status'], ['history'], ['log', '--security'], ['mcu', 'list'], ['metrics'], ['info', 'firmware.tart']])(
  'agent %s %s checks directly if the daemon is unresponsive, and reports that first',
  async (...args) => {
    const { exitCode, out, err, looks } = await typeBesideSilent(...args);
    expect(exitCode).toBe(0);
    expect(looks).toEqual(['unresponsive']);
    expect(out).not.toBe('');
    expect(err).toBe(
      'agent: the daemon is not responding; this was read without it. See journalctl -u thing-agent; to restart it, run systemctl restart thing-agent\n',
    );
  },
);

test('agent status shows an unresponsive daemon as a problem during any operation', async () => {
  const { out } = await typeBesideSilent('status');
  expect(rowOf('State', out)).toBe(
    'gateway-1.4.2 is running. The daemon is not responding, so the service is not checked.',
  );
  expect(rowOf('To do', out)).toBe('systemctl restart thing-agent');
  expect(rowOf('Agent', out)).toBe('0.1.0, the daemon is not responding');
  expect(await typeBesideSilent('status', '--exit-code')).toMatchObject({ exitCode: 1 });
});

// Regression: for 20 to 30 s after power-on the status advised "systemctl restart thing-agent", which starts it from the beginning.
test('agent status reports that the daemon is starting, and advises no restart', async () => {
  const starting: StatusReport = { ...silentStatus, state: 'busy', problems: ['daemon-starting'], phase: 'idle' };
  const alone = { ...fakeAgent(), status: async () => starting };
  const readOnly = async () => ({ ...alone, [Symbol.asyncDispose]: async () => {} });
  const { out, exitCode } = await type(['status', '--exit-code'], { connect: async () => undefined, readOnly });
  expect(exitCode).toBe(0);
  expect(rowOf('State', out)).toBe('gateway-1.4.2 is running. The daemon is starting.');
  expect(rowOf('To do', out)).not.toContain('systemctl');
  expect(rowOf('Agent', out)).toBe('0.1.0, the daemon is starting');
});

test('agent doctor tests nothing while an unresponsive daemon may be using it', async () => {
  const { exitCode, out, looks, local } = await typeBesideSilent('doctor', '--json');
  expect(exitCode).toBe(70);
  expect(JSON.parse(out)).toMatchObject({
    findings: [{ ok: false, detail: 'the daemon does not answer (daemon-unresponsive)' }],
  });
  expect([looks, local]).toEqual([[], []]);
});

test.each([['hold', '4h'], ['--update-now'], ['queue', 'status'], ['check']])(
  'agent %s %s fails if the daemon is unresponsive, and does nothing',
  async (...args) => {
    const { exitCode, err, looks, local } = await typeBesideSilent(...args);
    expect(exitCode).toBe(75);
    expect(err).toContain('systemctl restart thing-agent');
    expect([looks, local]).toEqual([[], []]);
  },
);
