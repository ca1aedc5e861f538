import { expect, test } from 'vitest';

import type { ConfigSetup } from '../../../../src/cli/context.ts';
import { ControlError } from '../../../../src/control/control-errors.ts';
import { type as typeAt } from '../fake-context.ts';
import { fakeAgent } from '../fake-operations.ts';

function setupThat(takenBy: 'reload' | 'restart'): () => Promise<ConfigSetup> {
  const path = '/etc/thing-agent/config.toml';
  return async () => ({
    path,
    notes: [],
    questionsLeft: () => [],
    complaint: async () => undefined,
    doubt: () => undefined,
    text: () => '',
    write: async () => ({ path, before: undefined, takenBy }),
  });
}

const reload = /takes this one with: systemctl reload thing-agent; then/;
const restart =
  /two in place of one\. It takes this one with: systemctl daemon-reload; systemctl restart thing-agent; then/;

// Seen: "FAIL two processes" of a configuration that the daemon had before, and nothing about a restart.
test.each([
  ['reload', reload],
  ['restart', restart],
] as const)('beside a daemon setup examines nothing, and says that it takes the new one by a %s', async (by, told) => {
  const daemon = fakeAgent();
  const { exitCode, out } = await typeAt(['setup', '--yes'], { daemon, setup: setupThat(by) });
  expect(exitCode).toBe(0);
  expect(out.replaceAll(/\s+/g, ' ')).toMatch(told);
  expect(daemon.calls).toEqual([]);
});

test('what is to be known comes before the questions', async () => {
  const setup = async (): Promise<ConfigSetup> => ({ ...(await setupThat('reload')()), notes: ['/x lies in memory'] });
  const { err } = await typeAt(['setup', '--yes'], { daemon: fakeAgent(), setup });
  expect(err).toMatch(/^Note: \/x lies in memory\n/);
});

test('what is to be known of an answer comes behind it, and the answer is taken', async () => {
  const question = {
    name: 'serial-number',
    key: 'device.serial_number',
    text: 'Serial number',
    found: undefined,
  } as const;
  const setup = async (): Promise<ConfigSetup> => ({
    ...(await setupThat('reload')()),
    questionsLeft: (answers) => (answers['serial-number'] === undefined ? [question] : []),
    doubt: (_question, answer) => `${answer} is odd`,
  });
  const typed = ['GW 1', 'y'];
  const person = () => ({ ask: async () => typed.shift(), [Symbol.dispose]: () => {} });
  const { err, exitCode } = await typeAt(['setup'], { daemon: fakeAgent(), setup, person });
  expect([exitCode, err]).toEqual([0, expect.stringContaining('Note: GW 1 is odd\n')]);
});

test('a daemon that does not answer runs, too', async () => {
  const connect = async (): Promise<never> => {
    throw new ControlError('daemon-silent', 'the daemon does not answer');
  };
  const { exitCode, out } = await typeAt(['setup', '--yes'], { connect, setup: setupThat('reload') });
  expect([exitCode, out.replaceAll(/\s+/g, ' ')]).toEqual([0, expect.stringMatching(reload)]);
});

test('without a daemon setup does what doctor does, and says how one is started', async () => {
  const alone = fakeAgent();
  const { out } = await typeAt(['setup', '--yes'], { alone, setup: setupThat('reload') });
  expect(alone.calls).toEqual([['doctor', {}]]);
  expect(out).toMatch(/What comes next: systemctl enable --now thing-agent$/m);
});
