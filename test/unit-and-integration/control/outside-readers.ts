import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';

/** A sensor that works and a board that is not there: what a gateway tells most of. */
export const sensorAndBoard = `
[[sensors]]
event = "load"
every = "1s"
source = { kind = "system", metric = "load1" }

[targets.meter]
kind = "mcu"
port = "/dev/nonexistent"
protocol = "stk500v1"
`;

/** Gives a program a text to read. Returns its exit code and output. */
export async function feed(program: string, args: readonly string[], text: string): Promise<readonly [number, string]> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.end(text);
  const said = Promise.all([child.stdout, child.stderr].map(async (from: Readable) => (await from.toArray()).join('')));
  const [code] = (await once(child, 'close')) as [number];
  return [code, (await said).join('')];
}
