import { describe, expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { checkHealthUnits } from '../../../../src/daemon/doctor/programs.ts';

const never = new AbortController().signal;
const configured = (units: readonly string[]) => ({ update: { health: { units } } }) as unknown as Config;

/** As systemctl show answers, unit by unit. */
const systemctl =
  (states: Readonly<Record<string, string>>) =>
  async (command: readonly string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> => ({
    exitCode: 0,
    stdout: states[command.at(-1) ?? ''] ?? 'LoadState=not-found\nActiveState=inactive\nSubState=dead\nInvocationID=\n',
    stderr: '',
  });

describe('the units that have to be active after an update', () => {
  const states = {
    'app.service': 'LoadState=loaded\nActiveState=active\nSubState=running\nInvocationID=1\n',
    'web.service': 'LoadState=loaded\nActiveState=inactive\nSubState=dead\nInvocationID=\n',
  };

  test('shows their current state; an inactive one is accepted before an update', async () => {
    const found = await checkHealthUnits(configured(['app.service', 'web.service']), never, systemctl(states));
    expect(found).toBe('app.service is active, web.service is inactive (dead)');
  });

  // Regression: every test passed, and each release was rolled back and blocked for 30 days.
  test('are wrong where systemd knows none of that name', async () => {
    await expect(checkHealthUnits(configured(['ap.service']), never, systemctl(states))).rejects.toMatchObject({
      code: 'unit-missing',
      message: '[update.health] units: there is no unit ap.service, so no release would be committed',
    });
  });

  test('reports a unit that systemd cannot start, or does not describe, such as a template', async () => {
    const others = { 'off.service': 'LoadState=masked\nActiveState=inactive\nSubState=dead\n', 'app@.service': '' };
    for (const unit of Object.keys(others)) {
      const found = checkHealthUnits(configured([unit]), never, systemctl(others));
      await expect(found).rejects.toMatchObject({ code: 'unit-missing' });
    }
  });

  test('reports nothing without units', async () => {
    expect(await checkHealthUnits(configured([]), never, systemctl(states))).toBeUndefined();
  });
});
