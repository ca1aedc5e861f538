import { formatBytes } from '../../control/presentation/bytes.ts';
import { phaseTitles } from '../../control/presentation/phases.ts';
import { type ProgressState, rateOf, timeLeftMs } from '../../control/presentation/progress-state.ts';
import { formatDuration } from '../../control/presentation/time.ts';
import { displayWidth, fitting, printable } from '../../system/log/printable.ts';

/** Returns the running phase on one line. The narrower the terminal, the fewer details. */
export function liveLine(state: ProgressState, nowMs: number, columns: number): string {
  const room = Math.max(1, columns - 3); // room at the end: some terminals wrap a full line, and Ctrl-C echoes `^C`
  const title = state.phase === 'flashing' ? phaseLine(state) : phaseTitles[state.phase];
  const elapsed = formatDuration(nowMs - state.sinceMs);
  if (state.transfer === undefined) {
    return firstFitting([`${phaseLine(state)}  ${elapsed}`, `${title}  ${elapsed}`, title], room);
  }
  const { receivedBytes, totalBytes } = state.transfer;
  const rate = rateOf(state, nowMs);
  const left = timeLeftMs(state, nowMs);
  const speed = rate === undefined ? '' : `  ${formatBytes(rate)}/s`;
  const rest = left === undefined ? '' : `  ${formatDuration(left)} left`;
  if (totalBytes === undefined || totalBytes <= 0) {
    const told = `${title}  ${formatBytes(receivedBytes)}`;
    return firstFitting([`${told}${speed}  ${elapsed}`, `${told}${speed}`, told], room);
  }
  const part = Math.min(1, receivedBytes / totalBytes);
  const percent = `${Math.floor(part * 100)}%`.padStart(4);
  const amount = `  ${formatBytes(receivedBytes)} of ${formatBytes(totalBytes)}`;
  const tail = [`${amount}${speed}${rest}`, `${speed}${rest}`, rest, ''];
  const shown = tail.find((text) => title.length + percent.length + text.length + minBar <= room) ?? '';
  const bar = barOf(part, room - title.length - percent.length - shown.length);
  return firstFitting([`${title}${percent}${bar}${shown}`, `${title}${percent}`, percent.trim()], room);
}

/** Returns the bar with its leading space, `  [####----]`, or an empty string if there is no room. */
function barOf(part: number, room: number): string {
  const inner = Math.min(30, room - 4);
  if (inner < 6) return '';
  const full = Math.floor(part * inner);
  return `  [${'#'.repeat(full)}${'-'.repeat(inner - full)}]`;
}

const minBar = 14;

/** Returns the line that ends a phase, with the transferred bytes and the duration. */
export function finishedLine(state: ProgressState, nowMs: number): string {
  const tookMs = nowMs - state.sinceMs;
  const moved = state.transfer === undefined ? [] : [formatBytes(state.transfer.receivedBytes)];
  const took = tookMs < 1_000 ? [] : [`in ${formatDuration(tookMs)}`];
  const extra = [...moved, ...took].join(' ');
  return extra === '' ? phaseLine(state) : `${phaseLine(state)}  ${extra}`;
}

/** Returns the line that announces a phase in a log, or on a terminal without a live line. */
export function phaseLine({ phase, detail }: ProgressState): string {
  return detail === undefined ? phaseTitles[phase] : `${phaseTitles[phase]}: ${printable(detail)}`;
}

function firstFitting(candidates: readonly string[], room: number): string {
  return candidates.find((text) => displayWidth(text) <= room) ?? fitting(candidates.at(-1) ?? '', room);
}
