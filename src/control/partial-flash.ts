import type { BoardReport } from './reports.ts';

/** What a person can do about a board whose writing was interrupted. */
export function partialFlashAdvice({ name, writing }: Pick<BoardReport, 'name' | 'writing'>): string {
  const flash = `agent mcu flash ${name} FILE`;
  const whatStood = writing?.restorable === true ? `; or agent mcu restore ${name}, for what stood there before` : '';
  return `${flash}${whatStood}; a daemon that runs finishes it by itself`;
}
