import assert from 'node:assert';

import type { Bootloader, BootState, SlotName, WholeSlot } from '../../update/ports.ts';
import { otherSlot } from './boot-environment.ts';
import type { BootChange, BootEnvironment } from './boot-environment.ts';
import { BootloaderError } from './errors.ts';

export interface EnvironmentBootloaderDeps<State> {
  readonly environment: BootEnvironment<State>;
  readonly bootedSlot: (signal: AbortSignal) => Promise<SlotName>;
  readonly trialRebootArgument?: string;
  /** Called after each commit of the running slot. */
  readonly onKept?: (() => Promise<void>) | undefined;
}

/**
 * Implements the Bootloader port with any boot environment. Changes are made one at a time; each one is refused, or
 * made and confirmed.
 */
export class EnvironmentBootloader<State> implements Bootloader {
  readonly trialRebootArgument: string | undefined;
  readonly #environment: BootEnvironment<State>;
  readonly #bootedSlot: (signal: AbortSignal) => Promise<SlotName>;
  readonly #onKept: (() => Promise<void>) | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(deps: EnvironmentBootloaderDeps<State>) {
    this.trialRebootArgument = deps.trialRebootArgument;
    this.#environment = deps.environment;
    this.#bootedSlot = deps.bootedSlot;
    this.#onKept = deps.onKept;
  }

  bootedSlot(signal: AbortSignal): Promise<SlotName> {
    return this.#bootedSlot(signal);
  }

  async onTrial(signal: AbortSignal): Promise<boolean> {
    const booted = await this.#bootedSlot(signal);
    return this.#inTurn(async () => this.#environment.onTrial(await this.#environment.read(signal), booted));
  }

  canary(signal: AbortSignal): Promise<void> {
    return this.#inTurn(() => this.#environment.testWrite(signal));
  }

  markUnbootable(slot: SlotName, signal: AbortSignal, lastWord?: string): Promise<void> {
    return this.#inTurn(() => this.#change({ kind: 'mark-unbootable', slot, lastWord }, signal));
  }

  async tryOnce(slot: SlotName, evidence: WholeSlot, signal: AbortSignal): Promise<void> {
    assert(evidence.slot === slot, `slot ${slot} is to be armed, and the evidence is of slot ${evidence.slot}`);
    return this.#inTurn(() => this.#change({ kind: 'try-once', slot }, signal));
  }

  commit(slot: SlotName, signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => {
      await this.#change({ kind: 'commit', slot }, signal);
      if (this.#onKept !== undefined && (await this.#bootedSlot(signal)) === slot) await this.#onKept();
    });
  }

  inspect(signal: AbortSignal): Promise<BootState> {
    return this.#inTurn(async () => {
      const state = await this.#environment.read(signal, 'last-words');
      const ofEach = (ask: (slot: SlotName) => boolean) => ({ A: ask('A'), B: ask('B') });
      return {
        ...this.#environment.inspect(state),
        onTrial: ofEach((slot) => this.#environment.onTrial(state, slot)),
        committed: ofEach((slot) => this.#environment.holds(state, { kind: 'commit', slot })),
      };
    });
  }

  async #change(change: BootChange, signal: AbortSignal): Promise<void> {
    const before = await this.#environment.read(signal);
    await this.#refuseUnsafe(before, change, signal);
    const after = (await this.#environment.change(before, change, signal)) ?? (await this.#environment.read(signal));
    if (this.#environment.holds(after, change)) return;
    throw new BootloaderError(
      'boot-write-not-confirmed',
      `${this.#environment.title}: ${phrases[change.kind](change.slot)} was written without an error, but reads back differently`,
      { advice: 'check the medium, and that nothing else writes the boot environment' },
    );
  }

  async #refuseUnsafe(state: State, change: BootChange, signal: AbortSignal): Promise<void> {
    const { kind, slot } = change;
    if (kind !== 'commit') {
      if (this.#environment.canDisableSlot(state, change)) return;
      const other = otherSlot(slot);
      throw new BootloaderError(
        'no-fallback-slot',
        `${phrases[kind](slot)}: it is unknown whether slot ${other} boots`,
        {
          advice: `install a version first (agent --update-now): it goes into slot ${other}`,
        },
      );
    }
    if (this.#environment.inspect(state).slots[slot].bootable || (await this.#bootedSlot(signal)) === slot) return;
    throw new BootloaderError(
      'slot-unbootable',
      `cannot commit slot ${slot}: it is not running, and it is unknown whether it boots`,
      {
        advice: 'try it first',
      },
    );
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.then(
      () => undefined,
      () => undefined,
    );
    return turn;
  }
}

const phrases = {
  'mark-unbootable': (slot: SlotName) => `marking slot ${slot} unbootable`,
  'try-once': (slot: SlotName) => `booting slot ${slot} once`,
  commit: (slot: SlotName) => `committing slot ${slot}`,
} as const;
