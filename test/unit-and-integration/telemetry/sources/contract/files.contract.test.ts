import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { fileSource } from '../../../../../src/telemetry/sources/file.ts';
import { hwmonSource, thermalSource } from '../../../../../src/telemetry/sources/kernel/hwmon.ts';
import { iioSource } from '../../../../../src/telemetry/sources/kernel/iio.ts';
import { w1Source } from '../../../../../src/telemetry/sources/kernel/w1.ts';
import type { Source } from '../../../../../src/telemetry/sources/source.ts';
import { systemSource } from '../../../../../src/telemetry/sources/system.ts';
import { sourceContract } from './source-contract.ts';
import type { Conduct, SourceRig } from './source-contract.ts';

const contents: Readonly<Record<Exclude<Conduct, 'gone' | 'silent'>, string>> = {
  works: '21062\n',
  garbage: '\u0000\u00ff{]\n',
  overflow: '9'.repeat(1024 * 1024),
};

/** A tree of files with the value in one of them. */
async function rigOf(
  stack: AsyncDisposableStack,
  files: Readonly<Record<string, string>>,
  value: string,
  make: (root: string) => Source,
): Promise<SourceRig> {
  const root = mkdtempSync(join(tmpdir(), 'files-'));
  stack.defer(() => rmSync(root, { recursive: true, force: true }));
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const conduct = (conduct: Conduct): void => {
    if (conduct === 'gone') rmSync(join(root, value));
    else if (conduct !== 'silent') write(value, contents[conduct]);
  };
  for (const [path, text] of Object.entries(files)) write(path, text);
  conduct('works');
  return { source: make(root), conduct };
}

const never = { silent: 'a regular file responds to each read; others are refused' };

sourceContract('file', async (stack) => rigOf(stack, {}, 'level', (root) => fileSource(join(root, 'level'))), never);

const hwmon = 'sys/class/hwmon/hwmon0';
sourceContract(
  'hwmon',
  async (stack) =>
    rigOf(stack, { [`${hwmon}/name`]: 'chip\n' }, `${hwmon}/temp1_input`, (root) => hwmonSource('chip', 'temp1', root)),
  never,
);

const zone = 'sys/class/thermal/thermal_zone0';
sourceContract(
  'thermal',
  async (stack) => rigOf(stack, { [`${zone}/type`]: 'cpu\n' }, `${zone}/temp`, (root) => thermalSource('cpu', root)),
  never,
);

const iio = 'sys/bus/iio/devices/iio:device0';
sourceContract(
  'iio',
  async (stack) =>
    rigOf(stack, { [`${iio}/name`]: 'bme280\n' }, `${iio}/in_temp_input`, (root) =>
      iioSource('bme280', 'in_temp', root),
    ),
  never,
);

sourceContract(
  'w1',
  async (stack) => rigOf(stack, {}, 'sys/bus/w1/devices/28-1/temperature', (root) => w1Source('28-1', root)),
  never,
);

sourceContract(
  'system',
  async (stack) =>
    rigOf(stack, {}, 'proc/loadavg', (root) =>
      systemSource('load1', { root, diskPath: root, agentFigures: () => undefined }),
    ),
  never,
);
