import { expect, test } from 'vitest';

import { resolveConfig } from '../../../../src/config/config.ts';
import { parseConfig } from '../../../../src/config/read-config.ts';
import { SerialError } from '../../../../src/serial/errors.ts';
import type { LineSettings } from '../../../../src/serial/line.ts';
import { SourceMaker } from '../../../../src/telemetry/sources/create-source.ts';
import { ManualClock } from '../../../fakes/clock.ts';
import { leastConfig } from '../../config/config-texts.ts';

const forever = new AbortController().signal;
const intake = { connected: () => {}, take: () => {}, drop: () => {}, rest: () => undefined };

test.each([
  ['kind = "serial", port = "/dev/ttyX", baud = 9600, parity = "odd"', 'odd'],
  ['kind = "serial", port = "/dev/ttyX", baud = 9600', 'none'],
  ['kind = "modbus-rtu", port = "/dev/ttyX", address = 0, parity = "odd"', 'odd'],
  ['kind = "modbus-rtu", port = "/dev/ttyX", address = 0', 'even'],
])('opens the port of %s with the parity %s', async (source, parity) => {
  const text = `${leastConfig}\n[[sensors]]\nevent = "e"\nevery = "1s"\nsource = { ${source} }`;
  const [settings] = resolveConfig(parseConfig('config.toml', text)).measurements;
  const opened: LineSettings[] = [];
  using maker = new SourceMaker({
    openLine: async (_, line) => {
      opened.push(line);
      throw new SerialError('port-missing', 'it has gone');
    },
    diskPath: '/',
    agentFigures: () => ({}),
    clock: new ManualClock(),
  });
  if (settings === undefined) throw new Error('no sensor is configured');
  const made = maker.make(settings);
  const running = made.kind === 'pushed' ? made.run(intake, forever) : made.read(forever);
  await expect(running).rejects.toThrow('it has gone');
  expect(opened).toMatchObject([{ baud: 9_600, parity }]);
});
