import { join } from 'node:path';

import { expect, test } from 'vitest';

import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { MessagingGateway } from './messaging-rig.ts';

interface Loaded {
  readonly version: string;
  readonly loaded: readonly string[];
}

async function load(configFile: string): Promise<Loaded> {
  const script = join(import.meta.dirname, 'loaded-modules.ts');
  const options = { timeoutMs: 60_000 };
  const { stdout } = await runProgram([process.execPath, script, configFile], options, AbortSignal.timeout(60_000));
  return JSON.parse(stdout) as Loaded;
}

const isMqtt = (url: string): boolean => /\/node_modules\/mqtt/.test(url);

test('MQTT code is loaded only where a broker is spoken to', async () => {
  await using rig = await MessagingGateway.create('rest');
  const { version, loaded } = await load(rig.gateway.configFile);
  expect(version).toBe('v1');
  expect(loaded.length).toBeGreaterThan(50);
  expect(loaded.filter(isMqtt)).toEqual([]);
  expect(loaded.filter((url) => url.includes('/service/messaging/'))).toEqual([
    expect.stringMatching(/\/settings\.ts$/),
  ]);

  await rig.configure('messaging');
  const other = await load(rig.gateway.configFile);
  expect(other.version).toBe('v1');
  expect(other.loaded.some(isMqtt)).toBe(true);
});
