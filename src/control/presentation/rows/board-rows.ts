import type { BoardPlan, BoardProbe, BoardReport } from '../../api/board-report.ts';
import { partialFlashAdvice } from '../../partial-flash.ts';
import { formatTime } from '../time.ts';
import type { When } from '../time.ts';
import type { Row } from './row.ts';

export function boardRows(boards: readonly BoardReport[], when: When): readonly Row[] {
  return boards.map((board) => ({
    label: board.name,
    paragraphs: [describePort(board), describeImage(board, when), ...describeWriting(board, when)],
    tone: board.connected && board.writing === undefined ? undefined : 'attention',
  }));
}

function describePort({ port, protocol, connected }: BoardReport): string {
  return connected ? `${protocol} on ${port}` : `${protocol} on ${port}, not connected`;
}

/** Describes a board in one paragraph. */
export function describeBoard(board: BoardReport, when: When): string {
  const port = board.connected ? '' : '; unplugged';
  const writing = describeWriting(board, when).map((line) => `; ${line}`);
  return `${board.name}: ${describeImage(board, when)}${port}${writing.join('')}`;
}

/**
 * Describes a board that is being written, or whose write was interrupted. It no longer contains the image flashed
 * last.
 */
function describeWriting(board: BoardReport, when: When): readonly string[] {
  const { writing } = board;
  if (writing === undefined) return [];
  const since = writing.since === undefined ? '' : ` since ${formatTime(writing.since, when)}`;
  return [
    `being written${since} (${writing.name}); unless an operation is running, it may have no program: ${partialFlashAdvice(board)}`,
  ];
}

/** Describes the image flashed last, with evidence and time. */
function describeImage(board: BoardReport, when: When): string {
  const { chip, imageName, imageDigest, flashedAt, known, boots, attempts, roundTripMs } = board;
  if (imageDigest === undefined) return 'never flashed by this agent';
  const details = [
    `${chip ?? 'unknown chip'}, ${nameOf(imageName)} (${imageDigest.slice(0, 19)})`,
    known === undefined ? '' : knownWords[known],
    boots ?? '',
    flashedAt === undefined ? '' : formatTime(flashedAt, when),
    attempts === undefined || attempts === 1 ? '' : `${attempts} attempts`,
    roundTripMs === undefined ? '' : `round trip ${roundTripMs.toFixed(1)} ms`,
  ];
  return details.filter((detail) => detail !== '').join(', ');
}

export const trialOfBoard =
  'on trial: it returns to the previous image at its next start unless its application confirms';

const knownWords: Readonly<Record<NonNullable<BoardReport['known']>, string>> = {
  'active-slot': 'runs: its slot is active',
  'first-slot': 'in the slot that starts',
  'on-trial': trialOfBoard,
  otadata: 'runs: read back and selected in otadata',
  'read-back': 'read back',
  sent: 'sent: the board cannot report its running image',
};

/** Returns the name of an image. An image from an update is named by its digest. */
function nameOf(imageName: string | undefined): string {
  if (imageName === undefined) return 'an image';
  return imageName.startsWith('sha256:') ? `payload ${imageName.slice(0, 19)}` : imageName;
}

export function describeProbe({ name, chip, capabilities, boots, roundTripMs }: BoardProbe): string {
  const starts = boots === undefined ? '' : `, and starts ${boots}`;
  const round = roundTripMs === undefined ? '' : `, round trip ${roundTripMs.toFixed(1)} ms`;
  return `${name}: ${chip}; its bootloader supports ${capabilities.join(', ')}${starts}${round}.`;
}

export function describePlan({ name, chip, unitsTotal, unitsDifferent }: BoardPlan): string {
  if (unitsDifferent === undefined) return `${name}: ${chip}; the protocol cannot determine the changes.`;
  return `${name}: ${chip}; ${unitsDifferent} of ${unitsTotal} units of its memory would change.`;
}
