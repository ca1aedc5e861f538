import { expect, test } from 'vitest';

import type { Board } from '../../../../src/mcu/connection.ts';
import { flash } from '../../../../src/mcu/flash/flash.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import { sliceOf } from '../../../../src/mcu/images/image.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { stm32 } from '../../../../src/mcu/protocols/stm32/stm32.ts';
import { SerialError } from '../../../../src/serial/errors.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { OptibootModel } from '../../../fakes/boards/models/avr-model.ts';
import { Stm32Model } from '../../../fakes/boards/models/stm32-model.ts';
import { cleanRun, imageOf, program, rigOf } from '../protocols/fault-matrix.ts';
import type { Subject } from '../protocols/fault-matrix.ts';

const signal = new AbortController().signal;
const size = 2048;
const programs = { old: program(size, 1), new: program(size, 2) };
const other = program(size, 3);
const common = { programs, start: 0, baud: 115_200, mayBlankStart: true, obeysNoise: true };

const subjects: Readonly<Record<string, Subject>> = {
  'AVR with Optiboot': {
    ...common,
    protocol: () => stk500v1({ bootloaderBytes: 0x8000 - size }),
    model: (held) => new OptibootModel({ programs: held, pageBytes: 128 }),
  },
  STM32: {
    ...common,
    protocol: () => stm32({ flashBytes: size }),
    model: (held) => new Stm32Model({ programs: held, pageBytes: 1024, productId: 0x410 }),
    start: 0x0800_0000,
  },
};

// Regression: a board that took the place of another one during a write got parts of the program, and was reported.
test.each(Object.keys(subjects))(
  'a board that replaces an %s in the middle of a flash holds one whole program',
  async (name) => {
    const subject = subjects[name] as Subject;
    const { counts } = await cleanRun(subject);
    const ends = new Map<string, number>();
    for (let at = 1; at < counts['to-board'] * 1.5; at += Math.ceil(counts['to-board'] / 40)) {
      const { board, port } = rigOf(subject);
      const second = subject.model({ old: other, new: programs.new });
      port.replacement = second;
      port.inject({ kind: 'unplug', direction: 'to-board', at });
      let kept: Image | undefined;
      const keep = async (previous?: Image): Promise<void> => void (kept = previous);
      const end = await flash({ image: imageOf(subject), keep }, board, signal).then(
        () => 'done',
        (error: unknown) => (error instanceof AgentError ? error.code : String(error)),
      );
      ends.set(end, (ends.get(end) ?? 0) + 1);
      const was = kept && sliceOf(kept, subject.start, subject.start + size);
      expect([programs.old, other].some((bytes) => Buffer.compare(bytes, was ?? bytes) === 0)).toBe(true);
      const isNew = Buffer.compare(second.memory, programs.new) === 0;
      // Regression: a board that came while the first unit was parked was flashed without a backup of its own.
      expect(isNew && Buffer.compare(other, was ?? other) !== 0, `${end} at ${at}`).toBe(false);
      expect(isNew || Buffer.compare(second.memory, other) === 0, `${end} at ${at}`).toBe(true);
      // the last places are behind the end of the flash
      expect(end === 'done' ? ['new', ''] : ['old'], `${end} at ${at}`).toContain(second.ran.join(' '));
    }
    expect(ends.get('board-changed')).toBeGreaterThan(3);
  },
);

// Regression: the comparison after each return of the port began the count of failures again, so the flash never ended.
test('a flash ends if the port is lost each time the same page is written', async () => {
  const subject = subjects['AVR with Optiboot'] as Subject;
  const { board } = rigOf(subject);
  const stop = new AbortController();
  let [pages, losses] = [0, 0];
  const openLine: Board['openLine'] = async (settings, opening) => {
    const line = await board.openLine(settings, opening);
    let isLost = false;
    const requirePort = (): void => {
      if (isLost) throw new SerialError('port-disconnected', 'the port is gone');
    };
    const { name, baud, bitsPerCharacter } = line;
    return {
      name,
      baud,
      bitsPerCharacter,
      read: async (...args) => {
        requirePort();
        return line.read(...args);
      },
      write: async (bytes, writing) => {
        if (bytes.byteLength > 100) pages += 1;
        isLost ||= bytes.byteLength > 100 && pages > 1;
        losses += isLost ? 1 : 0;
        if (losses > 100) stop.abort(new Error('it never ends'));
        requirePort();
        return line.write(bytes, writing);
      },
      setModem: async (...args) => line.setModem(...args),
      setBaud: async (...args) => line.setBaud(...args),
      [Symbol.asyncDispose]: async () => line[Symbol.asyncDispose](),
    };
  };
  const flashed = flash({ image: imageOf(subject) }, { ...board, openLine }, stop.signal);
  await expect(flashed).rejects.toMatchObject({ code: 'port-disconnected' });
});
