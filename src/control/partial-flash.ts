import type { BoardReport } from './api/board-report.ts';

/** Returns the advice for a partially flashed board. */
export function partialFlashAdvice({ name, writing }: Pick<BoardReport, 'name' | 'writing'>): string {
  const flash = `agent mcu flash ${name} FILE`;
  const orRestore = writing?.restorable === true ? `, or agent mcu restore ${name} for the previous image` : '';
  const orWait = writing?.needsOperator === true ? '' : '; a running daemon finishes it automatically';
  return `${flash}${orRestore}${orWait}`;
}
