import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { loadConfig } from '../../../../src/config/load-config.ts';
import { runHelper } from '../../../../src/helper/root/run-helper.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';

// Seen: started by hand on a gateway whose agent has never run, it ended as by a defect.
test('a helper that nobody can reach says what makes the folder of the agent', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'helper-'));
  try {
    const path = join(folder, 'config.toml');
    const [state, run, helper] = ['state', 'run', 'helper.sock'].map((name) => join(folder, name));
    await writeFile(
      path,
      `service.url = "http://127.0.0.1:9"
device = { serial_number = "1", device_type = "gw" }
paths = { state = "${state}", run = "${run}" }
system.helper = "${helper}"`,
    );
    const load = async () => (await loadConfig(path, {})).config;
    const world = { environment: {}, clock: systemClock, random: Math.random, log: silentLog, agentVersion: '1' };
    const running = runHelper({ loadConfig: load, world, environment: {} }, AbortSignal.timeout(60_000));
    await expect(running).rejects.toMatchObject({
      code: 'helper-unreachable',
      message: expect.stringMatching(/^cannot listen on .*state\/agent/) as unknown,
      advice: expect.stringContaining('systemctl start thing-agent') as unknown,
    });
  } finally {
    await rm(folder, { recursive: true });
  }
});
