import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { examineEngine } from '../../../../src/daemon/doctor/engine-checks.ts';

const { signal } = new AbortController();
const agent = {
  kind: 'package',
  name: 'agent',
  package: 'thing-agent',
  installDeadlineMs: 0,
  gracePeriodMs: 0,
} as const;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'engine-checks-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

// Regression: "safety net: not needed: no slots are configured", of a gateway whose packages need a guard.
describe('doctor on a gateway without slots', () => {
  const packageGuard = (): string => join(directory, 'guard.sock');
  const examine = async (): Promise<unknown> => {
    const config = { targets: [agent] };
    return examineEngine({ config, bootloader: undefined, packageGuard: packageGuard() }, signal);
  };

  test('finds the guard that puts a bad package back', async () => {
    await writeFile(packageGuard(), '');
    const detail = `the guard of packages is started by ${packageGuard()}`;
    expect(await examine()).toEqual([{ name: 'safety net', ok: true, detail }]);
  });

  test('reports that it is missing, and names the unit to start', async () => {
    const advice: unknown = expect.stringContaining('systemctl start thing-agent-package.socket');
    expect(await examine()).toEqual([
      {
        name: 'safety net',
        ok: false,
        advice,
        detail: `no listener on ${packageGuard()}: packages cannot be installed`,
      },
    ]);
  });
});
