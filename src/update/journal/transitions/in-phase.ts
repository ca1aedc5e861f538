import assert from 'node:assert';

import type { Phase, PhaseOf, UpdateState } from '../state.ts';

/** Asserts that the state is in this phase. An event that the phase does not allow is a defect. */
export function inPhase<K extends Phase['kind']>(state: UpdateState, kind: K): PhaseOf<K> {
  const { phase } = state;
  assert(isPhase(phase, kind), `an update in phase ${phase.kind} cannot do what phase ${kind} can`);
  return phase;
}

function isPhase<K extends Phase['kind']>(phase: Phase, kind: K): phase is PhaseOf<K> {
  return phase.kind === kind;
}
