import { expect, test } from 'vitest';

import { Converser } from '../../../../../src/mcu/converse.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import type { UploadSession } from '../../../../../src/mcu/protocol.ts';
import { encodeCbor } from '../../../../../src/mcu/protocols/cbor.ts';
import { consoleFraming, mapIn } from '../../../../../src/mcu/protocols/smp/smp-frames.ts';
import { smp } from '../../../../../src/mcu/protocols/smp/smp.ts';
import type { Line } from '../../../../../src/serial/line.ts';
import { mcubootFile } from '../../images/build.ts';

/** The beginning of a packet (Zephyr, "SMP over console"). */
const PACKET_START = '\u0006\t';

/** A server that takes the chunk at 0, and expects 0 again after the next one. */
function forgetfulServer(): { readonly line: Line; readonly clock: { monotonicMs: () => number } } {
  const answers: Uint8Array[] = [];
  let nowMs = 0;
  const answerTo = ({ group, command, body }: { group: number; command: number; body: Uint8Array }): object => {
    if (group !== 1) return { rc: 8 };
    if (command === 0) return { images: [] };
    const { off, data } = mapIn(body) as { readonly off: number; readonly data: Uint8Array };
    return { rc: 0, off: off === 0 ? data.byteLength : 0 };
  };
  const line = {
    baud: 115_200,
    bitsPerCharacter: 10,
    setBaud: async () => {},
    write: async (bytes: Uint8Array) => {
      nowMs += bytes.byteLength;
      const [, ...messages] = Buffer.from(bytes).toString('latin1').split(PACKET_START);
      for (const message of messages) {
        const packet = consoleFraming.decode(Buffer.from(`${PACKET_START}${message}`, 'latin1'));
        if (packet === undefined) continue;
        const { operation, group, command, sequence } = packet;
        const body = encodeCbor(answerTo(packet) as Parameters<typeof encodeCbor>[0]);
        answers.push(consoleFraming.encode({ operation: operation + 1, group, command, sequence, body }));
      }
    },
    read: async (ms: number) => {
      const answer = answers.shift();
      nowMs += answer === undefined ? ms : 1;
      return answer ?? new Uint8Array();
    },
  };
  return { line: line as unknown as Line, clock: { monotonicMs: () => nowMs } };
}

// Regression: each accepted chunk made the failures before it forgotten, so that such an upload never ended.
test('gives a server up that falls back again and again', async () => {
  const { line, clock } = forgetfulServer();
  const converser = new Converser(line, clock);
  const { signal } = new AbortController();
  const session = (await converser.converse(smp().connect(), signal)) as UploadSession;
  const image = readImage(mcubootFile(new Uint8Array(4096).fill(1)), { isForMcuboot: true });
  await expect(
    converser.converse(
      session.upload(image, () => {}),
      signal,
    ),
  ).rejects.toMatchObject({
    code: 'board-timeout',
  });
});
