import { setImmediate } from 'node:timers/promises';

import { describe, expect, test } from 'vitest';

import { AgentError } from '../../../../../src/system/errors.ts';
import { inTime } from '../../../../../src/telemetry/sources/create-source.ts';
import type { Reading, Source } from '../../../../../src/telemetry/sources/source.ts';

/**
 * The behavior of a device. `silent`: it does not respond. `garbage`: bytes without a meaning. `overflow`: far more than
 * a reading, and endless where possible. `gone`: it is missing, or refuses.
 */
export type Conduct = 'works' | 'silent' | 'garbage' | 'overflow' | 'gone';

export interface SourceRig {
  readonly source: Source;
  /** Makes the device behave like this from now on. */
  readonly conduct: (conduct: Conduct) => void;
}

/** The conducts that no such device can have, with the reason. */
type Impossible = Partial<Record<Exclude<Conduct, 'works'>, string>>;

export const timeoutMs = 2_000;
/** A reading is not larger, however much a device sends. */
const MAX_READING_CHARACTERS = 256 * 1024;
const bad = ['silent', 'garbage', 'overflow', 'gone'] as const;

/** Guarantees of a source of datapoints to the agent, for any behavior of its device. `open` makes a working one. */
export function sourceContract(
  name: string,
  open: (stack: AsyncDisposableStack) => Promise<SourceRig>,
  impossible: Impossible = {},
): void {
  const conducts = bad.filter((conduct) => impossible[conduct] === undefined);

  describe(`${name} as a source`, () => {
    test('yields a reading of a device that works', async () => {
      await using stack = new AsyncDisposableStack();
      const { source } = await open(stack);
      expect(await attempt(source)).toHaveProperty('reading');
      expect(await attempt(source)).toHaveProperty('reading');
    });

    test.each(['before it begins', 'while it waits for its device'])(
      'ends with the reason of its signal %s',
      async (when) => {
        await using stack = new AsyncDisposableStack();
        const { source, conduct } = await open(stack);
        conduct(impossible.silent === undefined ? 'silent' : 'works');
        const reason = new Error('the test ends it');
        const ending = new AbortController();
        if (when === 'before it begins') ending.abort(reason);
        const ended = attempt(source, ending.signal);
        await setImmediate();
        ending.abort(reason);
        const { error, reading } = await ended;
        expect(reading === undefined ? error : reason).toBe(reason);
      },
    );

    test.each(conducts)(
      'has no reading, an error with a code or a bounded reading of a device: %s',
      async (conduct) => {
        await using stack = new AsyncDisposableStack();
        const rig = await open(stack);
        rig.conduct(conduct);
        const { reading, drops, error } = await attempt(rig.source, briefly(rig.source));
        expect(error === undefined || isEnd(error) || error instanceof AgentError).toBe(true);
        expect((JSON.stringify(reading) ?? '').length).toBeLessThan(MAX_READING_CHARACTERS);
        expect([conduct, drops > 0 || error !== undefined || conduct === 'garbage' || conduct === 'overflow']).toEqual([
          conduct,
          true,
        ]);
      },
    );

    test.each(conducts)('yields readings again after its device was: %s', async (conduct) => {
      await using stack = new AsyncDisposableStack();
      const rig = await open(stack);
      await attempt(rig.source);
      rig.conduct(conduct);
      await attempt(rig.source, briefly(rig.source));
      rig.conduct('works');
      await expect.poll(async () => attempt(rig.source), { timeout: 15_000 }).toHaveProperty('reading');
    });
  });
}

/** A polled source ends by its own timeout; a push source may be silent. */
function briefly({ kind }: Source): AbortSignal {
  return AbortSignal.timeout(kind === 'polled' ? 4 * timeoutMs : timeoutMs / 4);
}

interface Attempt {
  readonly reading?: Reading;
  readonly drops: number;
  readonly error?: unknown;
}

function isEnd(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** Reads a polled source within its time, or runs a push source to its first reading or drop. */
async function attempt(source: Source, signal: AbortSignal = AbortSignal.timeout(20_000)): Promise<Attempt> {
  if (source.kind === 'polled') {
    try {
      return { reading: await inTime(source, { name: 'source', timeoutMs }).read(signal), drops: 0 };
    } catch (error) {
      return { error, drops: 0 };
    }
  }
  const enough = new AbortController();
  const found: { reading?: Reading; drops: number } = { drops: 0 };
  const sink = {
    connected: (): void => {},
    take: (read: () => Reading): void => {
      try {
        found.reading ??= read();
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        found.drops += 1;
      }
      enough.abort();
    },
    drop: (): void => {
      found.drops += 1;
      enough.abort();
    },
    rest: (): undefined => undefined,
  };
  try {
    await source.run(sink, AbortSignal.any([signal, enough.signal]));
  } catch (error) {
    if (!enough.signal.aborted) return { ...found, error };
  }
  return found;
}
