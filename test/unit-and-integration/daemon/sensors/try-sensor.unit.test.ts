import { expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { resolveConfig } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';
import { trySensor } from '../../../../src/daemon/measurements.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';

const forever = new AbortController().signal;
const world = { environment: {}, clock: systemClock, random: () => 0.5, log: silentLog, agentVersion: '0' };

function configured(): Config {
  const sensor =
    '[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { kind = "modbus-rtu", port = "/dev/none", address = 0 }';
  return resolveConfig(
    parseConfig('c', `[service]\nurl = "https://a.example.com"\n[device]\ndevice_type = "b"\n${sensor}\n`),
  );
}

// Two that open one port get in each other's way.
test('where telemetry runs, a sensor is tried by it, which has the ports', async () => {
  const tried: string[] = [];
  const telemetry = {
    sensors: () => [],
    trySensor: async (name: string) => {
      tried.push(name);
      return 42;
    },
  };
  const where = { wiring: () => ({ config: configured(), world }), telemetry: () => telemetry };
  expect(await trySensor('sensors[0] (e)', where, forever)).toMatchObject({
    reading: '42',
    outputs: [{ id: 'e', value: '42' }],
  });
  expect(tried).toEqual(['sensors[0] (e)']);
});

test('rejects a sensor that is not configured', async () => {
  const where = { wiring: () => ({ config: configured(), world }) };
  await expect(trySensor('sensors[1]', where, forever)).rejects.toMatchObject({ code: 'sensor-unknown' });
});
