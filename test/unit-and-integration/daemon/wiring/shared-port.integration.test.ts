import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { buildHello, SimulatedAvr } from '../../../fakes/boards/avr/simulated-avr.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import { intelHex } from '../../mcu/images/build.ts';

/** Prints `hello VERSION` repeatedly. */
async function program(version: number): Promise<Parameters<typeof intelHex>[0]> {
  const elf = await buildHello({ version, fillBytes: 600, bootloader: 'optiboot' });
  return readImage(await readFile(elf)).segments;
}

test('a board that is listened to is flashed through the same port, and listened to again', async () => {
  const contents = Buffer.alloc(1_024, 0xff);
  for (const { address, bytes } of await program(1)) contents.set(bytes, address);
  await using board = await SimulatedAvr.start({ bootloader: 'optiboot', contents });
  await using service = await startStandIn({ versions: [{ id: 'v1', firmware: bufferContent(Buffer.alloc(100)) }] });
  await using gateway = await FileGateway.create({
    serviceUrl: service.url,
    image: Buffer.alloc(1_000),
    slotBytes: 1_000_000,
    updateToml: 'follow = "none"',
    extraToml: `
[targets.meter]
kind = "mcu"
port = "${board.port}"
protocol = "stk500v1"
baud = ${board.baud}
reset = { command = ${JSON.stringify(board.resetCommand)} }
bootloader_bytes = ${31 * 1024}

[telemetry]
gather = "10ms"

[[sensors]]
event = "version"
every = "1s"
source = { kind = "serial", port = "${board.port}", baud = ${board.baud}, pattern = "hello (\\\\d)" }
`,
  });
  await gateway.startDaemon();
  const heard = (version: number): boolean =>
    (service.world.things[0]?.datapoints.get('version') ?? []).some(({ value }) => value === version);
  const signal = AbortSignal.timeout(100_000);
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) await systemClock.sleep(50, signal);
  };
  await board.tell('power');
  await until(() => heard(1));
  /** The daemon makes rounds of its own. */
  const whenIdle = async (...args: readonly string[]): Promise<string> => {
    for (;;) {
      const answer = JSON.stringify(await gateway.json(...args));
      if (!answer.includes('"agent-busy"')) return answer;
      await systemClock.sleep(100, signal);
    }
  };
  expect(await whenIdle('mcu', 'probe', 'meter')).toContain('"chip":"ATmega328P"');
  const file = join(gateway.directory, 'meter-2.hex');
  await writeFile(file, intelHex(await program(2)));
  expect(await whenIdle('mcu', 'flash', 'meter', file)).toContain('"kind":"flashed"');
  await until(() => heard(2));
});
