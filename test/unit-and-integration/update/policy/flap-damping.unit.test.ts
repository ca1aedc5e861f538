import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { recordInstall, countCheck } from '../../../../src/update/journal/versions.ts';
import { flapChecksLeft, MAX_PAUSE_CHECKS } from '../../../../src/update/policy/backoff.ts';

const UNSET_CLOCK_MS = 0;
const at = new Date(UNSET_CLOCK_MS).toISOString();

/** Number of installations in this number of checks, while the service alternates between these. */
function installsIn(looks: number, ids: readonly string[]): number {
  let turns: Parameters<typeof flapChecksLeft>[0];
  let installs = 0;
  for (let look = 0; look < looks; look += 1) {
    const version = ids[installs % ids.length] ?? '';
    if (flapChecksLeft(turns, version, UNSET_CLOCK_MS) === 0) {
      turns = recordInstall(turns, version, at);
      installs += 1;
    } else if (turns !== undefined) turns = countCheck(turns);
  }
  return installs;
}

describe('versions that take turns', () => {
  const looksADay = 96;

  test('are installed once a day in the end, whatever the service names', () => {
    expect(installsIn(30 * looksADay, ['a', 'b'])).toBeLessThan(2 * 30);
    expect(installsIn(60 * looksADay, ['a', 'b']) - installsIn(59 * looksADay, ['a', 'b'])).toBeLessThanOrEqual(2);
  });

  test('wait the longer the more often they came back, and never longer than a day', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 30 }), (history) => {
        let turns: Parameters<typeof flapChecksLeft>[0];
        for (const id of history) turns = recordInstall(turns, id, at);
        expect(flapChecksLeft(turns, 'a', UNSET_CLOCK_MS)).toBeLessThanOrEqual(MAX_PAUSE_CHECKS);
      }),
    );
  });

  test('do not wait for a single rollback, or for a version that was never installed', () => {
    const turns = recordInstall(recordInstall(undefined, 'a', at), 'b', at);
    expect(flapChecksLeft(turns, 'a', UNSET_CLOCK_MS)).toBe(0);
    expect(flapChecksLeft(turns, 'c', UNSET_CLOCK_MS)).toBe(0);
  });

  test('are forgotten behind newer ones', () => {
    let turns = recordInstall(undefined, 'a', at);
    for (let n = 0; n < 20; n += 1) turns = recordInstall(turns, `v${n}`, at);
    expect(turns.installed).toHaveLength(8);
  });
});
