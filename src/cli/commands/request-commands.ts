import { resolve } from 'node:path';

import { exitCodes } from '../../system/errors.ts';
import type { CliContext } from '../context.ts';
import { renderParagraph } from '../screen/layout.ts';
import { pageFor } from '../screen/page.ts';
import { printableJson } from '../screen/printable.ts';
import { describePlan, describeProbe, renderBoards } from '../screen/render-boards.ts';
import type { RequestCommand } from './command.ts';
import { isSpoolCommand, performWithSpool } from './spool-commands.ts';
import type { Told } from './told.ts';
import { withAgent, withLook } from './with-agent.ts';

/** The short calls: each is one answer. */
export async function runRequest(command: RequestCommand, json: boolean, context: CliContext): Promise<number> {
  const { text, value } = await perform(command, context);
  context.out.write(json ? `${printableJson(value)}\n` : text);
  return exitCodes.done;
}

function perform(command: RequestCommand, context: CliContext): Promise<Told> {
  const sentence = (text: string): string => renderParagraph(text, pageFor(context.out, context));
  const { signal } = context;
  if (command.name === 'mcu-list') {
    return withLook(context, async (agent) => {
      const boards = await agent.boards(signal);
      return { text: renderBoards(boards, pageFor(context.out, context)), value: { boards } };
    });
  }
  return withAgent(context, async (agent): Promise<Told> => {
    if (isSpoolCommand(command)) return performWithSpool(command, agent, context);
    switch (command.name) {
      case 'activate': {
        const { serialNumber, thingId } = await agent.activate(signal);
        return { text: sentence(`Activated: ${serialNumber} is thing ${thingId}.`), value: { serialNumber, thingId } };
      }
      case 'reboot':
        await agent.reboot(signal);
        return { text: sentence('The gateway reboots now.'), value: { rebooting: true } };
      case 'forget': {
        const forgotten = await agent.forget(command.version, signal);
        const text = `${forgotten.join(', ')} may be tried again: agent --update-now`;
        return { text: sentence(text), value: { forgotten } };
      }
      case 'mcu-probe': {
        const found = await agent.probeBoard(command.board, signal);
        return { text: sentence(describeProbe(found)), value: found };
      }
      case 'mcu-plan': {
        const plan = await agent.planBoard(command.board, resolve(context.directory, command.path), signal);
        return { text: sentence(describePlan(plan)), value: plan };
      }
      case 'mcu-reset':
        await agent.resetBoard(command.board, signal);
        return { text: sentence(`Restarted: ${command.board}.`), value: { name: command.board, restarted: true } };
    }
  });
}
