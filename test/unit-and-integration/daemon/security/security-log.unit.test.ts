import { beforeEach, describe, expect, test } from 'vitest';

import { recordingRejections, recordTrustChanges } from '../../../../src/daemon/security/record-events.ts';
import { SecurityLog } from '../../../../src/daemon/security/security-log.ts';
import type { TrustedKey } from '../../../../src/firmware/artifact/trust.ts';
import { FirmwareError, VerificationError } from '../../../../src/firmware/errors.ts';
import type { Keyring } from '../../../../src/firmware/trust/keyring.ts';
import type { DurableFs } from '../../../../src/system/files/durable-file.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { UpdateError } from '../../../../src/update/errors.ts';
import { ManualClock } from '../../../fakes/clock.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';
import { RecordingLog } from '../../service/recording-log.ts';
import { MemoryState } from '../memory-state.ts';

const path = '/state/security.json';
let state: MemoryState;
let clock: ManualClock;

beforeEach(() => {
  state = new MemoryState();
  clock = new ManualClock();
});

/** As after a start: only the content of the disk. */
function open(): SecurityLog {
  return new SecurityLog({ stateDirectory: '/state', clock, log: silentLog, fs: state.fs });
}

function throwing(error: Error): () => Promise<never> {
  return async () => {
    throw error;
  };
}

describe('the log of security events', () => {
  test('survives a start with continued numbers', async () => {
    await open().record('activated', 'as thing 7');
    const log = open();
    await log.record('force-used', 'rollback --force');
    expect(await open().report()).toMatchObject({
      discarded: 0,
      events: [
        { number: 1, id: 'activated', detail: 'as thing 7', count: 1 },
        { number: 2, id: 'force-used', detail: 'rollback --force', count: 1 },
      ],
    });
  });

  test('counts what happens again within an hour, and does not write for it', async () => {
    const log = open();
    for (let turn = 0; turn < 1_000; turn += 1) {
      await log.record('access-denied', `members asked for ${turn % 2 === 0 ? 'update' : 'reboot'}`);
    }
    expect(state.writes).toBe(2);
    expect((await log.report()).events.map(({ count }) => count)).toEqual([500, 500]);
    clock.advance(3_600_001);
    await log.record('access-denied', 'members asked for update');
    expect((await open().report()).events.map(({ count }) => count)).toEqual([500, 500, 1]);
  });

  // Regression: a list that took effect during a trial, and once more when it was acknowledged after it.
  test('records a unique event once, and repeats it once', async () => {
    for (let start = 0; start < 3; start += 1) await open().recordOnce('trust-list-applied', 'sha256:1', 'list 1');
    await open().recordOnce('trust-list-applied', 'sha256:2', 'list 2');
    expect((await open().report()).events).toMatchObject([
      { id: 'trust-list-applied', detail: 'list 1', count: 1 },
      { id: 'trust-list-applied', detail: 'list 2', count: 1 },
    ]);
  });

  // Regression: with a full disk, before every command, twice.
  test('tells once that the disk does not take it, until it does again', async () => {
    const log = new RecordingLog();
    let isFull = true;
    const open = async (...given: Parameters<DurableFs['open']>): ReturnType<DurableFs['open']> => {
      if (isFull) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
      return state.fs.open(...given);
    };
    const security = new SecurityLog({ stateDirectory: '/state', clock, log, fs: { ...state.fs, open } });
    await security.compare('configuration-changed', 'sha256:1', 'config.toml');
    await security.compare('keys-changed', '1', 'a key');
    const complaints = (): number => log.lines.filter(({ level }) => level === 'error').length;
    expect(complaints()).toBe(1);
    isFull = false;
    await security.record('force-used', 'rollback --force');
    isFull = true;
    await security.record('force-used', 'install --force');
    expect(complaints()).toBe(2);
  });

  test('keeps the last 256, and counts the previous ones', async () => {
    const log = open();
    for (let turn = 0; turn < 300; turn += 1) await log.record('force-used', `install ${turn} ${'x'.repeat(2_000)}`);
    const { events, discarded } = await open().report();
    expect([events.length, discarded, events[0]?.number, events.at(-1)?.number]).toEqual([256, 44, 45, 300]);
    expect(String(state.volume.readFileSync(path)).length).toBeLessThan(256 * 700);
  });

  test('notices what changed since it was last looked at, but nothing the first time', async () => {
    await open().compare('keys-changed', 'a', 'release.pem');
    expect((await open().report()).events).toEqual([]);
    await open().compare('keys-changed', 'a', 'release.pem');
    await open().compare('keys-changed', 'b', 'other.pem');
    await open().compare('keys-changed', 'b', 'other.pem');
    expect((await open().report()).events).toMatchObject([{ id: 'keys-changed', detail: 'other.pem', count: 1 }]);
  });

  test.each(['', '{', '[]', '{"events":[{}]}'])('starts again after damage (%s), and reports it', async (text) => {
    state.volume.writeFileSync(path, text);
    await open().record('activated', 'as thing 7');
    expect((await open().report()).events.map(({ id }) => id)).toEqual(['log-damaged', 'activated']);
  });

  // Regression: agent log --security showed no event for a damaged log.
  test.each(['\0'.repeat(4_096), `{"events":${'['.repeat(100_000)}${']'.repeat(100_000)}}`])(
    'reports damage to a reader, and changes nothing',
    async (text) => {
      state.volume.writeFileSync(path, text);
      const report = await open().report();
      expect(report).toMatchObject({
        discarded: 0,
        events: [{ number: 1, id: 'log-damaged', detail: path, count: 1 }],
      });
      expect(state.writes).toBe(0);
      expect(state.volume.readFileSync(path, 'utf8')).toBe(text);
    },
  );

  test('holds up nothing where it cannot be written, and shows no secret', async () => {
    state.volume.rmdirSync('/state');
    const log = open();
    await log.record('access-denied', 'see https://user:PASS@host/?token=abc');
    expect(JSON.stringify(await log.report())).not.toMatch(/PASS|abc/);
  });
});

test.each([
  [new VerificationError('signature-invalid', 'm'), 'signature-rejected'],
  [new VerificationError('image-unsigned', 'm'), 'signature-rejected'],
  [new VerificationError('key-revoked', 'm'), 'key-rejected'],
  [new VerificationError('key-expired', 'm'), 'key-rejected'],
  [new VerificationError('release-revoked', 'm'), 'release-rejected'],
  [new VerificationError('trust-list-old', 'm'), 'trust-list-rejected'],
  [new UpdateError('downgrade', 'm'), 'downgrade-rejected'],
  [new UpdateError('name-mismatch', 'm'), 'name-rejected'],
])('a refusal is recorded, and thrown on: %s', async (error, id) => {
  const log = open();
  await expect(recordingRejections(log, throwing(error))).rejects.toBe(error);
  expect((await log.report()).events).toMatchObject([{ id, detail: `m (${error.code})` }]);
});

test('does not record a failure as an event', async () => {
  const log = open();
  const error = new FirmwareError('file-changed', 'm');
  await expect(recordingRejections(log, throwing(error))).rejects.toBe(error);
  expect(await log.report()).toEqual({ events: [], discarded: 0 });
});

describe('whom this gateway trusts', () => {
  const settings = { path: '/etc/thing-agent/config.toml', digest: 'sha256:1' };
  const [one, two] = [trustedKey('one'), trustedKey('two')];

  /** With such a list in effect; 0: with none that can be understood. */
  async function start(number: number, ...revokedKeys: readonly string[]): Promise<void> {
    const isDamaged = number === 0;
    const revoked = { keys: revokedKeys, releases: [`sha256:${'0'.repeat(64)}`] };
    const keyring: Keyring = {
      keys: [one, two],
      revoked: { keys: new Set(revoked.keys), releases: new Set(revoked.releases) },
      time: { atLeastMs: undefined, nowMs: undefined },
      list: isDamaged ? undefined : { number, issuedMs: 0, keys: [], revoked, artifact: undefined },
      damage: isDamaged ? new FirmwareError('trust-list-damaged', 'm') : undefined,
    };
    const { signal } = new AbortController();
    await recordTrustChanges(open(), settings, { keyring: async () => keyring }, signal);
  }

  // Regression: keys-changed after a list that revoked a release alone; and a revoked key among those that it named as trusted.
  test('is not changed by a list that revokes no key', async () => {
    await start(1);
    await start(2);
    await start(3, `sha256:${'f'.repeat(64)}`);
    expect((await open().report()).events).toEqual([]);
  });

  test('is changed by a list that revokes a key, which is not named as trusted', async () => {
    await start(1);
    await start(2, one.fingerprint);
    expect((await open().report()).events).toMatchObject([{ id: 'keys-changed', detail: `two ${two.fingerprint}` }]);
  });

  // Regression: a revoked key was shown as trusted, without a note about the damage.
  test('is unknown if the revocations are', async () => {
    await start(1, one.fingerprint);
    await start(0);
    const detail = `the revocations were lost: one ${one.fingerprint}, two ${two.fingerprint}`;
    expect((await open().report()).events).toMatchObject([{ id: 'keys-changed', detail }]);
  });
});

function trustedKey(name: string): TrustedKey {
  const { trusted } = makeKeyPair('ecdsa-p256', name);
  return trusted;
}
