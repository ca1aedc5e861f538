import fc from 'fast-check';

import { encodeHead, FrameDecoder } from '../../../../src/helper/link/frame.ts';
import { parseMessage, requireForm } from '../../../../src/helper/link/message.ts';
import { rowOf } from '../../../../src/helper/root/service-table.ts';
import { agentVerbs, helperVerbs, PROTOCOL } from '../../../../src/helper/verbs.ts';
import { unpackImage } from '../../../../src/mcu/apart/packed-image.ts';
import { edited, edits } from '../mutation.ts';
import { openTarget, outcomeOf } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

/** What a board held comes as bytes. */
const HELD = { format: 'raw', madeFor: undefined } as const;

const inputs = fc.oneof(
  fc.constantFrom(
    {},
    { protocol: PROTOCOL },
    { reboot: true, force: false, manual: true },
    { name: 'file', reboot: true, force: true },
    { version: 'v1' },
    { durationMs: 3_600_000, reason: 'work' },
    { name: 'trust.json' },
    { board: 'meter', name: 'meter.hex', keep: false },
    { laidBytes: 1_000 },
    { kind: 'held', isLast: false },
    { kind: 'flashed', chip: 'ATmega328P', unitsWritten: 8, repeated: 0 },
  ),
  fc.dictionary(fc.string({ minLength: 2_000, maxLength: 4_000 }), fc.boolean(), { maxKeys: 2 }),
  fc.jsonValue(),
);
const verbs = fc.constantFrom(...Object.keys(helperVerbs), 'constructor', '__proto__', 'openSlot');
const answers = fc.constantFrom(...Object.keys(agentVerbs));

const messages = fc.oneof(
  fc.record({ kind: fc.constant('call'), id: fc.nat(), verb: verbs, input: inputs }),
  fc.record({ kind: fc.constant('result'), id: fc.nat(), output: fc.oneof(inputs, fc.record({ from: answers })) }),
  fc.record({ kind: fc.constant('note'), topic: fc.constantFrom('heard', 'journal'), content: inputs }),
  fc.jsonValue(),
);

const cases = fc.record({
  frames: fc.array(fc.tuple(messages, fc.uint8Array({ maxLength: 64 })), { minLength: 1, maxLength: 4 }),
  changes: edits,
  /** How long the pieces are in which it comes. */
  pieceBytes: fc.integer({ min: 1, max: 4_096 }),
});

/** The helper's side of the link, up to what would be done: who has broken into the agent says what it likes there. */
export const helperLink: FuzzTarget = {
  name: 'helper-link',
  open: async () => openTarget(cases, check),
};

async function check({ frames, changes, pieceBytes }: CaseOf<typeof cases>): Promise<void> {
  const whole = frames.map(([head, body]) => Buffer.concat([encodeHead(head, body.byteLength), body]));
  const bytes = edited(Buffer.concat(whole), changes);
  const decoder = new FrameDecoder();
  await outcomeOf(async () => {
    for (let at = 0; at < bytes.byteLength; at += pieceBytes)
      for (const frame of decoder.push(bytes.subarray(at, at + pieceBytes))) {
        const message = parseMessage(frame);
        if (message.kind === 'call') await outcomeOf(() => admit(message.verb, message.input));
        if (message.kind === 'result') await outcomeOf(() => admitAnswer(message.output));
        if (frame.body !== undefined) await outcomeOf(() => unpackImage(HELD, frame.body ?? Buffer.alloc(0)));
      }
  });
}

/** As far as the verb's schema: what is done then needs a gateway. */
function admit(name: string, input: unknown): void {
  rowOf(name);
  for (const verb of Object.values(helperVerbs)) if (verb.name === name) requireForm(name, verb.input, input);
}

function admitAnswer(output: unknown): void {
  for (const verb of Object.values(agentVerbs)) requireForm(verb.name, verb.output, output);
}
