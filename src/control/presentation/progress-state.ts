import type { OperationEvent, TransferProgress } from '../events.ts';
import type { ProgressPhase } from '../reports.ts';

/** The state of a running operation at one moment of the monotonic clock. */
export interface ProgressState {
  readonly phase: ProgressPhase;
  readonly detail: string | undefined;
  readonly sinceMs: number;
  readonly transfer: TransferProgress | undefined;
  /** The samples from which the rate is computed, oldest first. */
  readonly samples: readonly Sample[];
}

interface Sample {
  readonly atMs: number;
  readonly receivedBytes: number;
}

/** The period over which the rate is computed. */
const rateWindowMs = 8_000;
const maxSamples = 64;

export function beginProgress(nowMs: number): ProgressState {
  return { phase: 'checking', detail: undefined, sinceMs: nowMs, transfer: undefined, samples: [] };
}

export function advanceProgress(state: ProgressState, event: OperationEvent, nowMs: number): ProgressState {
  switch (event.kind) {
    case 'following':
      return state;
    case 'phase': {
      if (event.phase === state.phase) return { ...state, detail: event.detail ?? state.detail };
      return { ...beginProgress(nowMs), phase: event.phase, detail: event.detail };
    }
    case 'transfer':
      return countBytes(state, event, nowMs);
    case 'board': {
      const { board, step, doneBytes: receivedBytes, totalBytes } = event;
      // a step without bytes of its own, as all of a package
      const counted = totalBytes === 0 ? state : countBytes(state, { receivedBytes, totalBytes }, nowMs);
      return { ...counted, detail: `${board}: ${step}` };
    }
  }
}

function countBytes(state: ProgressState, transfer: TransferProgress, nowMs: number): ProgressState {
  const { receivedBytes, totalBytes } = transfer;
  const back = receivedBytes < (state.transfer?.receivedBytes ?? 0);
  const kept = back ? [] : state.samples.filter(({ atMs }) => nowMs - atMs <= rateWindowMs).slice(1 - maxSamples);
  return { ...state, transfer: { receivedBytes, totalBytes }, samples: [...kept, { atMs: nowMs, receivedBytes }] };
}

/**
 * Returns the recent bytes per second, or undefined if there are too few samples. The rate of a stalled transfer falls
 * to 0.
 */
export function rateOf({ samples, transfer }: ProgressState, nowMs: number): number | undefined {
  const first = samples.find(({ atMs }) => nowMs - atMs <= rateWindowMs) ?? samples.at(-1);
  if (first === undefined || transfer === undefined) return undefined;
  const seconds = (nowMs - first.atMs) / 1_000;
  return seconds < 0.5 ? undefined : (transfer.receivedBytes - first.receivedBytes) / seconds;
}

/** Returns the remaining milliseconds of the transfer at this rate, or undefined if unknown. */
export function timeLeftMs(state: ProgressState, nowMs: number): number | undefined {
  const rate = rateOf(state, nowMs);
  const total = state.transfer?.totalBytes;
  if (rate === undefined || rate <= 0 || state.transfer === undefined || total === undefined) return undefined;
  return Math.max(0, ((total - state.transfer.receivedBytes) / rate) * 1_000);
}
