import { describe, expect, test } from 'vitest';

import type { CliContext } from '../../../../src/cli/context.ts';
import { type as typeAt } from '../fake-context.ts';

const digest = `sha256:${'a'.repeat(64)}`;

type WrittenTrustList = Awaited<ReturnType<CliContext['writeTrustList']>>;

function type(line: string, list: Partial<WrittenTrustList> = {}) {
  const written: WrittenTrustList = { number: 1, keys: [], revoked: { keys: [], releases: [] }, ...list };
  return typeAt(`artifact trust list.json ${line}`.split(' '), { writeTrustList: async () => written });
}

describe('agent artifact trust', () => {
  test.each([
    ['--keys a.pem --not-before tomorrow', '--not-before tomorrow is not a time in UTC, such as 2026-12-01'],
    ['--keys a.pem --not-after 2026-13-01', '--not-after 2026-13-01 is not a time in UTC'],
    ['--revoke-keys a.pem --not-after 2026-12-01', '--not-after needs --keys'],
    ['--keys a.pem --not-before 2027-01-01 --not-after 2026-12-01', '--not-after is not later than --not-before'],
    ['--keys a.pem --not-before 2027-01-01 --not-after 2027-01-01', '--not-after is not later than --not-before'],
  ])('refuses «%s» as an error of usage that names the option', async (line, told) => {
    const { exitCode, err } = await type(line);
    expect(exitCode).toBe(64);
    expect(err.replaceAll(/\s+/g, ' ')).toContain(told);
  });

  test('warns of a list that revokes keys and names none', async () => {
    const revoked = { keys: [digest], releases: [] };
    const { exitCode, out, err } = await type('--revoke-keys a.pem', { revoked });
    expect(exitCode).toBe(0);
    expect(err).toContain('this trust list revokes keys and adds none');
    expect(out).toContain('0 keys, 1 revoked key, 0 revoked releases.');
    const inJson = await type('--revoke-keys a.pem --json', { revoked });
    expect(inJson.err).toBe('');
    expect(JSON.parse(inJson.out)).toMatchObject({ warnings: [expect.stringContaining('adds none')] });
  });

  test('warns of nothing else', async () => {
    const { err, out } = await type('--keys a.pem --revoke-keys b.pem', {
      keys: [{ name: 'a.pem', pem: '' }],
      revoked: { keys: [digest], releases: [digest] },
    });
    expect(err).toBe('');
    expect(out).toContain('1 key, 1 revoked key, 1 revoked release.');
  });

  test('shows in its help how a time is written', async () => {
    const { out } = await type('--help');
    expect(out).toContain('2026-12-01T06:00:00Z');
  });
});
