import type { Line, ModemLines } from '../../../../src/mcu/line.ts';

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
