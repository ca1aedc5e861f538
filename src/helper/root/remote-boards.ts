import { flashableApart } from '../../mcu/apart/folder-side.ts';
import type { LinePort } from '../../mcu/apart/line-port.ts';
import type { FlashableBoard } from '../../mcu/create-board.ts';
import { Turns } from '../../system/turns.ts';
import { outOfTurn } from '../link/message.ts';
import { agentVerbs } from '../verbs.ts';
import type { AskAgent } from './ask-agent.ts';

/** A bootloader that works in silence is waited for by the agent, within deadlines of its own. */
const STEP_MS = 30 * 60_000;
const LOCAL_MS = 60_000;
/** A link takes sixteen calls at once, and a firmware needs some of them. */
const MAX_BOARDS = 8;

/** Flashes boards through the agent, which has their lines. What they hold, as it says, is trusted no more than that. */
export function remoteBoards(ask: AskAgent): (about: Omit<FlashableBoard, 'flash'>) => FlashableBoard {
  const turns = new Turns(MAX_BOARDS);
  return (about) => {
    const board = flashableApart(about, lineOf(ask));
    return { ...board, flash: async (...request) => turns.run(async () => board.flash(...request), request[1]) };
  };
}

function lineOf(ask: AskAgent): LinePort {
  return {
    open: async (order, signal) =>
      (await ask.answer(agentVerbs.openBoard, order, { deadlineMs: LOCAL_MS }, signal)).job,
    feed: async (job, body, signal) => {
      await ask.answer(agentVerbs.feedBoard, { job }, { deadlineMs: LOCAL_MS, body }, signal);
    },
    step: async (job, signal) => {
      const options = { deadlineMs: STEP_MS };
      const { output, body } = await ask.answerWithBytes(agentVerbs.stepBoard, { job }, options, signal);
      return { step: output, bytes: body };
    },
    close: async (job, signal) => ask.ending(agentVerbs.closeBoard, { job }, { deadlineMs: LOCAL_MS }, signal),
    outOfTurn,
  };
}
