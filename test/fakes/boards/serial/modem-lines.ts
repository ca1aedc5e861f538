import { join } from 'node:path';

import type { Line, ModemLines } from '../../../../src/serial/line.ts';
import { built } from '../build.ts';

/**
 * Environment for a program that requires modem lines: this pty provides them, and sends their changes to this socket.
 */
export async function modemLines(port: string, control: string): Promise<Record<string, string>> {
  const source = join(import.meta.dirname, 'ptymodem.c');
  const library = await built('ptymodem.so', [source], `gcc -O2 -Wall -shared -fPIC ${source} -ldl -o`);
  return { LD_PRELOAD: library, PTYMODEM: `${port}=${control}` };
}

/** A pty has no modem lines: this edge of DTR calls `onEdge` instead. */
export function withModemLines(line: Line, edge: 'asserted' | 'released', onEdge: () => Promise<void>): Line {
  let dtr = true;
  return withBothLines(line, async (lines) => {
    const changed = lines.dtr !== dtr;
    dtr = lines.dtr;
    if (changed && dtr === (edge === 'asserted')) await onEdge();
  });
}

/** Both of them, whatever they change to. */
export function withBothLines(line: Line, onChange: (lines: ModemLines) => Promise<void>): Line {
  return {
    name: line.name,
    bitsPerCharacter: line.bitsPerCharacter,
    get baud() {
      return line.baud;
    },
    write: async (bytes, signal) => line.write(bytes, signal),
    read: async (timeoutMs, signal) => line.read(timeoutMs, signal),
    setBaud: async (baud, signal) => line.setBaud(baud, signal),
    setModem: async (lines) => {
      await onChange(lines);
      return true;
    },
    [Symbol.asyncDispose]: async () => line[Symbol.asyncDispose](),
  };
}
