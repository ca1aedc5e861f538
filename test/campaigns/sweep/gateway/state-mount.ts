import { stateFs } from '../../../../src/daemon/doctor/state-directory.ts';
import type { DurableFs } from '../../../../src/system/files/durable-file.ts';
import type { ForgetfulFs } from '../../../fakes/machine/memory/forgetful-fs.ts';

export const STATE = '/state';

/** Slots that are devices survive a power loss: memory next to them is rejected. */
const place = {
  paths: { state: STATE },
  targets: [{ kind: 'slots', slots: { A: '/dev/slot-a', B: '/dev/slot-b' } }],
} as const;

/**
 * The content of the state directory's path in a running system: the state partition, or, while that is not mounted, a
 * directory in memory, which the agent's own check must find.
 */
export class StateMount {
  /** As the agent has it. */
  readonly fs: DurableFs;
  mounted: ForgetfulFs;
  readonly #now: () => number;
  #memory: DurableFs | undefined;
  #backAtMs = 0;

  constructor(disk: ForgetfulFs, now: () => number) {
    this.mounted = disk;
    this.#now = now;
    this.fs = {
      open: async (...given) => this.#there.open(...given),
      readFile: async (path) => this.#there.readFile(path),
      rename: async (from, to) => this.#there.rename(from, to),
    };
  }

  /** Unmounts it for this duration; `memory` is empty. */
  missFor(ms: number, memory: ForgetfulFs): void {
    this.#backAtMs = ms === 0 ? 0 : this.#now() + ms;
    this.#memory = stateFs(place, { fs: memory.api, kindOf: async () => 'memory' });
  }

  get isInMemory(): boolean {
    return this.#backAtMs > 0 && this.#now() <= this.#backAtMs;
  }

  get #there(): DurableFs {
    return this.isInMemory && this.#memory !== undefined ? this.#memory : this.mounted.api;
  }
}
