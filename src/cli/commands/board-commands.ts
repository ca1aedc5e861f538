import type { InputOf } from '../../control/operations.ts';
import { describePlan, describeProbe } from '../../control/presentation/rows/board-rows.ts';
import { commandsOf, throughDaemon } from '../arguments/command.ts';
import type { ParsedCommand } from '../arguments/command.ts';
import type { CliContext } from '../context.ts';
import { renderBoards } from '../screen/pages/render-rows.ts';
import { follow } from './follow.ts';
import { wholePath } from './named-file.ts';
import { singleParagraph, printResult } from './print.ts';
import { withAgent, withReadOnlyAgent } from './with-agent.ts';

export const boardCommands = commandsOf('Boards', [
  {
    name: 'mcu list',
    summary: 'list boards and the image flashed last',
    details: [
      'Boards are microcontrollers on serial ports. This command does not connect to them; to do that, run agent mcu probe.',
    ],
    run: listBoards,
  },
  {
    name: 'mcu probe',
    operands: ['NAME'],
    summary: "identify a board by its bootloader's reply",
    details: ['Restarts the application afterwards.', throughDaemon],
    run: probeBoard,
  },
  {
    name: 'mcu flash',
    operands: ['NAME', 'FILE'],
    options: ['plan', 'no-keep', 'allow-downgrade'],
    summary: 'flash a file, or compare it with --plan',
    details: [
      'FILE is Intel HEX, S-record, ELF, UF2, an image for MCUboot, or a raw binary.',
      'An unsigned file needs allow_unsigned.',
      'Backs up the board first, so that agent mcu restore can undo it. For a large chip this takes minutes.',
      throughDaemon,
    ],
    run: flashBoard,
  },
  {
    name: 'mcu restore',
    operands: ['NAME'],
    summary: 'restore the previous image of a board',
    details: [throughDaemon],
    run: restoreBoard,
  },
  {
    name: 'mcu reset',
    operands: ['NAME'],
    summary: 'restart the application of a board',
    details: [throughDaemon],
    run: resetBoard,
  },
]);

async function listBoards(typed: ParsedCommand, context: CliContext): Promise<number> {
  const { boards } = await withReadOnlyAgent(context, (agent) => agent.boards({}, context.signal));
  return printResult({ boards }, (page) => renderBoards(boards, page), typed, context);
}

async function probeBoard(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [board = ''] = typed.operands;
  const found = await withAgent(context, (agent) => agent.probeBoard({ board }, context.signal));
  return printResult(found, singleParagraph(describeProbe(found)), typed, context);
}

async function flashBoard(typed: ParsedCommand, context: CliContext): Promise<number> {
  if (typed.flags.has('plan')) return planBoard(typed, context);
  const input = flashInput(typed, context);
  await using file = await context.openFile(input.path);
  return await follow({ name: 'flash', input: { ...input, file } }, typed, context, file);
}

function flashInput(typed: ParsedCommand, context: CliContext): Omit<InputOf<'flash'>, 'file'> {
  return {
    ...boardAndFile(typed, context),
    ...(typed.flags.has('allow-downgrade') && { allowDowngrade: true }),
    ...(typed.flags.has('no-keep') && { keep: false }),
  };
}

async function planBoard(typed: ParsedCommand, context: CliContext): Promise<number> {
  const input = boardAndFile(typed, context);
  await using file = await context.openFile(input.path);
  const plan = await withAgent(context, (agent) => agent.planBoard({ ...input, file }, context.signal));
  return printResult(plan, singleParagraph(describePlan(plan)), typed, context);
}

async function restoreBoard(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [board = ''] = typed.operands;
  return follow({ name: 'restore', input: { board } }, typed, context);
}

async function resetBoard(typed: ParsedCommand, context: CliContext): Promise<number> {
  const [board = ''] = typed.operands;
  await withAgent(context, (agent) => agent.resetBoard({ board }, context.signal));
  return printResult({ name: board, restarted: true }, singleParagraph(`Restarted: ${board}.`), typed, context);
}

function boardAndFile(
  { operands: [board = '', file = ''] }: ParsedCommand,
  context: CliContext,
): { readonly board: string; readonly path: string } {
  return { board, path: wholePath(file, context) };
}
