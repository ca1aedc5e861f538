import type { Activation, WithThing } from '../../../src/service/contract.ts';

/** Makes calls as this thing, and never renews its key. */
export function asThing(thing: Activation): WithThing {
  return async (call) => call(thing);
}
