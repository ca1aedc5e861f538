import type { BoardReport } from './api/board-report.ts';

/** Returns the advice for a partially flashed board. */
export function partialFlashAdvice({ name, writing }: Pick<BoardReport, 'name' | 'writing'>): string {
  const flash = `agent mcu flash ${name} FILE`;
  const orRestore = writing?.restorable === true ? `, or agent mcu restore ${name} for the previous image` : '';
  return `${flash}${orRestore}; a running daemon finishes it automatically`;
}
