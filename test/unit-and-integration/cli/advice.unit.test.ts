import { describe, expect, test } from 'vitest';

import { ConfigError } from '../../../src/config/errors.ts';
import { errorCatalogue } from '../../../src/error-catalogue.ts';
import { type } from './fake-context.ts';
import { fakeAgent } from './fake-operations.ts';
import type { FakeAgent } from './fake-operations.ts';

// Regression: "nothing: the agent retries" for damaged releases, which are not retried.
test('advice promises a retry only for codes that are retried', () => {
  const all = errorCatalogue.flatMap(({ codes }) => Object.entries(codes));
  const others = all.filter(([, meaning]) => 'remedy' in meaning && meaning.remedy === 'give-up');
  expect(others.filter(([, { advice = '' }]) => /the agent (retries|tries again)/.test(advice))).toEqual([]);
});

// Regression: "the agent retries" where the agent itself hangs, and advice to install another version than the file.
test.each([
  ['daemon-unresponsive', 'Waiting may fix it.\n'],
  ['hook-rejected', 'agent install FILE --force'],
])('the page of %s contains: %s', async (code, text) => {
  expect((await type(['explain', code])).out.replaceAll('\n       ', ' ')).toContain(text);
});

test('help of metrics does not promise to work with an invalid configuration', async () => {
  expect((await type(['help', 'metrics'])).out).toContain('not with an invalid configuration');
});

describe('who mistypes', () => {
  test.each(['tls-unknown-ca', '(TLS-unknown-ca)', ' tls-unknown-ca '])(
    'an error code as %j gets its page',
    async (code) => {
      const { exitCode, out } = await type(['explain', code]);
      expect(exitCode).toBe(0);
      expect(out).toContain('The certificate of the service');
    },
  );

  test('suggests the nearest error code', async () => {
    const { exitCode, err } = await type(['explain', 'digest-mismach']);
    expect(exitCode).toBe(64);
    expect(err).toContain('did you mean digest-mismatch?');
  });

  test('names the list of codes for an unknown one', async () => {
    const { err } = await type(['explain', 'zzzz']);
    expect(err).not.toContain('did you mean');
    expect(err).toContain('at the end of a message');
  });
});

// Regression: three ids began with b, and one of them was shown without a word.
describe('the log of an attempt by the beginning of its id', () => {
  const attempts = ['b540abd5-1', 'b64b18f6-2', '0b1c2d3e-3'].map((attempt, n) => ({
    attempt,
    version: `1.${n}.0`,
    steps: [],
  }));
  const daemon = (): FakeAgent => fakeAgent({ history: async () => ({ attempts, discarded: 0 }) });

  test('that several have names them', async () => {
    const { exitCode, err } = await type(['log', 'b'], { daemon: daemon() });
    expect(exitCode).toBe(64);
    expect(err).toContain('2 attempts start with b: b540abd5-1 (1.0.0), b64b18f6-2 (1.1.0)');
  });

  test.each([
    ['b6', '1.1.0'],
    ['last', '1.2.0'],
    ['b540abd5-1', '1.0.0'],
  ])('such as %s shows the one that it is', async (word, version) => {
    expect(await type(['log', word], { daemon: daemon() })).toMatchObject({
      exitCode: 0,
      out: expect.stringContaining(version) as unknown,
    });
  });
});

describe('help', () => {
  test('of --update-now names what --force goes through', async () => {
    const { out } = await type(['help', 'update-now']);
    expect(out.replaceAll(/\s+/g, ' ')).toMatch(/metered connections, agent hold, quarantine, exhausted attempts/);
  });

  test.each([['--json'], ['--json', '--help'], ['status', '--help', '--json']])('of %s is JSON', async (...args) => {
    const { exitCode, out } = await type(args);
    expect(exitCode).toBe(0);
    const value = JSON.parse(out) as { usage: string; commands?: { name: string }[] };
    expect(value.usage).toMatch(/^agent/);
    expect(value.commands?.some(({ name }) => name === 'status') ?? args.includes('status')).toBe(true);
  });

  test('explains --force for a rollback', async () => {
    const { out } = await type(['rollback', '--help']);
    expect(out.replaceAll(/\s+/g, ' ')).toMatch(
      /--force roll back even to a revoked release, and leave boards that cannot be restored/,
    );
    expect(out).not.toContain('maintenance window');
  });

  test('of a reboot does not contradict itself', async () => {
    const { out } = await type(['reboot', '--help']);
    expect(out).toContain('into the staged update if there is one');
    expect(out.replaceAll(/\s+/g, ' ')).toContain('Refused while an update is being written.');
  });
});

test('refuses to write an empty trust list', async () => {
  const { exitCode, err } = await type(['artifact', 'trust', 'list.json']);
  expect(exitCode).toBe(64);
  expect(err).toContain('a trust list needs --keys');
  expect((await type(['artifact', 'trust', 'list.json', '--keys', 'next.pem'])).exitCode).toBe(0);
});

test('config check names the remedy for a missing configuration', async () => {
  const path = '/etc/thing-agent/config.toml';
  const problem = { line: undefined, message: 'no such configuration file' };
  const check = async (): Promise<never> => {
    throw new ConfigError(
      'config-missing',
      path,
      [problem],
      'make it with agent setup, or name another with --config FILE',
    );
  };
  const show = async (): Promise<never> => check();
  const { exitCode, out } = await type(['config', 'check'], { config: { check, show, schema: async () => ({}) } });
  expect(exitCode).toBe(78);
  expect(out.replaceAll(/\s+/g, ' ')).toContain(
    'make it with agent setup, or name another with --config FILE (config-missing)',
  );
});
