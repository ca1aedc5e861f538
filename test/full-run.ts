import { test } from 'vitest';

import { isFull } from './full.ts';

type Body = () => void | Promise<void>;

const register: (name: string, options: { timeout?: number }, body: Body) => unknown = test;

/**
 * In place of `test`: a further test of a promise that another one of its file touches. `npm run prove -- --only tests`
 * plays it, `npm test` does not.
 */
export function testInFull(name: string, body: Body, options: { timeout?: number } = {}): void {
  if (isFull) register(name, options, body);
}
