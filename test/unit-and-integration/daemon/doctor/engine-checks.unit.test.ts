import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { engineChecks } from '../../../../src/daemon/doctor/engine-checks.ts';
import { runChecks } from '../../../../src/daemon/doctor/findings.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { Bootloader } from '../../../../src/update/ports.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';

const { signal } = new AbortController();
const agent = {
  kind: 'package',
  name: 'agent',
  package: 'thing-agent',
  installDeadlineMs: 0,
  gracePeriodMs: 0,
} as const;

let directory: string;
beforeEach(() => {
  directory = folderUntilTestEnds();
});

// Regression: "safety net: not needed: no slots are configured", of a gateway whose packages need an installer.
describe('doctor on a gateway without slots', () => {
  const packageGuard = (): string => join(directory, 'guard.sock');
  const examine = async (): Promise<unknown> => {
    const config = { targets: [agent] };
    return runChecks(engineChecks, { config, bootloader: undefined, packageGuard: packageGuard() }, signal);
  };

  test('finds the installer, which restores the previous package', async () => {
    await writeFile(packageGuard(), '');
    const detail = `started by ${packageGuard()}`;
    expect(await examine()).toEqual([{ name: 'package installer', ok: true, detail }]);
  });

  test('reports that it is missing, and names the unit to start', async () => {
    const advice: unknown = expect.stringContaining('systemctl start thing-agent-package.socket');
    expect(await examine()).toEqual([
      {
        name: 'package installer',
        ok: false,
        advice,
        detail: `no listener on ${packageGuard()}: packages cannot be installed`,
      },
    ]);
  });
});

const rollback = { id: '1', version: { name: '1.4.0' }, by: 'rollback', startedAt: '' } as const;
const firmware = { digest: 'sha256:00', provides: {}, payloads: [] };
const staged = { kind: 'staged', attempt: rollback, slot: 'B', firmware, trialsLeft: 1 } as const;
const update = { id: '2', version: { name: '1.5.0' }, by: 'service', startedAt: '' } as const;
const staging = { kind: 'staging', attempt: update, slot: 'B' } as const;

// Regression: "none: slot B is not bootable …; install a release" after `agent rollback --no-reboot`, and while a
// release was being written.
test.each([
  ['a rollback is staged', staged, 'slot A becomes the fallback when the rollback to 1.4.0 boots in slot B'],
  ['1.5.0 is being written', staging, 'none until 1.5.0, which is being written to slot B, boots'],
] as const)('doctor does not advise to install a release while %s', async (_, phase, detail) => {
  const slot = { bootable: false, detail: '' };
  const bootloader = {
    bootedSlot: async () => 'A',
    canary: async () => {},
    inspect: async () => ({ primary: 'A', slots: { A: slot, B: slot } }),
  } as unknown as Bootloader;
  const journal = { state: { ...initialState, phase } };
  const findings = await runChecks(engineChecks, { config: { targets: [] }, bootloader, journal }, signal);
  expect(findings.find(({ name }) => name === 'fallback slot')).toEqual({
    name: 'fallback slot',
    ok: true,
    detail,
  });
});
