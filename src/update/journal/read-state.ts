import * as z from 'zod';

import { attempt, versionEntry } from './schema.ts';
import { initialState, updateState } from './state.ts';
import type { UpdateState } from './state.ts';

/** The state in a text, as far as it can be understood. */
export interface FoundState {
  readonly state: UpdateState;
  /** The parts that could not be understood, and count as unknown. */
  readonly damage: readonly string[];
}

/** The part of an unknown phase that is kept. */
const MAX_KEPT_CHARACTERS = 65_536;

/**
 * A part's name. JavaScript puts names that are numbers before all others, and the trial guard reads the beginning of
 * the text.
 */
const PART_NAME = /^[A-Za-z]/;

const jsonObject = z.record(z.string(), z.unknown());

/**
 * Reads the state part by part. The two slots may hold agents of different ages, and a part that one of them does not
 * understand must not cost the parts that both do, such as the quarantine. Unknown parts of a newer agent are kept as
 * they are.
 */
export function readState(text: string): FoundState {
  try {
    const found = jsonObject.safeParse(JSON.parse(text));
    if (found.success) return stateOf(found.data);
    return { state: lostState, damage: ['it is not a journal'] };
  } catch (error) {
    if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error;
    return { state: lostState, damage: ['it is not JSON'] };
  }
}

const lostState: UpdateState = { ...initialState, phase: { kind: 'lost' } };

function stateOf(found: Readonly<Record<string, unknown>>): FoundState {
  const damage: string[] = [];
  const known = new Map<string, unknown>();
  for (const [name, schema] of Object.entries(updateState.shape)) {
    const part = schema.safeParse(found[name]);
    if (part.success) known.set(name, part.data);
    else {
      damage.push(`${name}: ${part.error.issues[0]?.message ?? 'cannot be understood'}`);
      known.set(name, substitutes[name]?.(found[name]));
    }
  }
  const isOurs = updateState.shape.format.safeParse(found['format']).success;
  const phase = isOurs ? phaseOfOlderAgent(known.get('phase')) : lostPhase(found['phase']);
  const state = updateState.parse({ ...Object.fromEntries(known), format: 1, phase });
  const unknown = Object.entries(found).filter(([name]) => !known.has(name) && PART_NAME.test(name));
  return { state: { ...state, ...Object.fromEntries(unknown) }, damage };
}

/** Replacements for unreadable parts. Parts without a replacement are left out. */
const substitutes: Readonly<Record<string, (found: unknown) => unknown>> = {
  phase: lostPhase,
  slots: () => initialState.slots,
  earlier: (found) => itemsOf(found, updateState.shape.earlier.element),
  versions: (found) => itemsOf(found, versionEntry),
  reports: (found) => itemsOf(found, updateState.shape.reports.element),
};

function itemsOf<T>(found: unknown, schema: z.ZodType<T>): readonly T[] {
  if (!Array.isArray(found)) return [];
  return found.flatMap((item) => {
    const parsed = schema.safeParse(item);
    return parsed.success ? [parsed.data] : [];
  });
}

const withAttempt = z.object({ attempt });

function lostPhase(was: unknown): object {
  const isKept = was !== undefined && JSON.stringify(was).length <= MAX_KEPT_CHARACTERS;
  const begun = withAttempt.safeParse(was);
  return { kind: 'lost', ...(isKept && { was }), ...(begun.success && { interrupted: begun.data.attempt }) };
}

/** The phase that an older agent in the other slot did not understand, and kept. */
function phaseOfOlderAgent(found: unknown): unknown {
  const lost = updateState.shape.phase.safeParse(found).data;
  if (lost?.kind !== 'lost') return found;
  const was = updateState.shape.phase.safeParse(lost.was);
  return was.success ? was.data : found;
}
