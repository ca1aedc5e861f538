import type { BoardPlan, BoardProbe, BoardReport } from '../../control/operations.ts';
import { renderParagraph, renderRows } from './layout.ts';
import type { Row } from './layout.ts';
import type { Page } from './page.ts';
import { localTime } from './time.ts';

export function renderBoards(boards: readonly BoardReport[], page: Page): string {
  if (boards.length === 0) return renderParagraph('No microcontroller is configured.', page);
  return renderRows(
    boards.map((board): Row => ({
      label: board.name,
      paragraphs: [describePort(board), describeImage(board, page)],
      tone: board.connected ? undefined : 'attention',
    })),
    page,
  );
}

function describePort({ port, protocol, connected }: BoardReport): string {
  return connected ? `${protocol} on ${port}` : `${protocol} on ${port}, where nothing is plugged in`;
}

/** A board in one paragraph. */
export function describeBoard(board: BoardReport, page: Page): string {
  const port = board.connected ? '' : '; unplugged';
  return `${board.name}: ${describeImage(board, page)}${port}`;
}

/** What was flashed last, how, and when. */
function describeImage(board: BoardReport, page: Page): string {
  const { chip, imageName, imageDigest, flashedAt, attempts, roundTripMs } = board;
  if (imageDigest === undefined) return 'never flashed by this agent';
  const facts = [
    `${chip ?? 'unknown chip'}, ${nameOf(imageName)} (${imageDigest.slice(0, 19)})`,
    flashedAt === undefined ? '' : localTime(flashedAt, page.localOffset),
    attempts === undefined || attempts === 1 ? '' : `${attempts} attempts`,
    roundTripMs === undefined ? '' : `${roundTripMs.toFixed(1)} ms`,
  ];
  return facts.filter((fact) => fact !== '').join(', ');
}

/** What came with an update is named by its digest. */
function nameOf(imageName: string | undefined): string {
  if (imageName === undefined) return 'an image';
  return imageName.startsWith('sha256:') ? `payload ${imageName.slice(0, 19)}` : imageName;
}

export function describeProbe({ name, chip, can, roundTripMs }: BoardProbe): string {
  const round = roundTripMs === undefined ? '' : `, round trip ${roundTripMs.toFixed(1)} ms`;
  return `${name}: ${chip}; its bootloader can ${can.join(', ')}${round}.`;
}

export function describePlan({ name, chip, unitsTotal, unitsDifferent }: BoardPlan): string {
  if (unitsDifferent === undefined) return `${name}: ${chip}; how much would change cannot be found out.`;
  return `${name}: ${chip}; ${unitsDifferent} of ${unitsTotal} units of its memory would change.`;
}
