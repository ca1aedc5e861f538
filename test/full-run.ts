import { test } from 'vitest';

import { isFull } from './full.ts';

type Body = () => void | Promise<void>;

const register: (name: string, options: { timeout?: number }, body: Body) => unknown = test;

/**
 * Replaces `test` for a further test of a guarantee that another one in its file covers. `npm run prove -- --only
 * tests` runs it, `npm test` does not.
 */
export function testInFull(name: string, body: Body, options: { timeout?: number } = {}): void {
  if (isFull) register(name, options, body);
}
