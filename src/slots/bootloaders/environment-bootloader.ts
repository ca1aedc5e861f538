import assert from 'node:assert';

import type { Bootloader, BootState, SlotName, WholeSlot } from '../../update/ports.ts';
import { otherSlot } from './boot-environment.ts';
import type { BootChange, BootEnvironment } from './boot-environment.ts';
import { BootloaderError, notConfirmed } from './errors.ts';

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
  readonly #deps: EnvironmentBootloaderDeps<State>;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(deps: EnvironmentBootloaderDeps<State>) {
    this.#deps = deps;
  }

  get trialRebootArgument(): string | undefined {
    return this.#deps.trialRebootArgument;
  }

  bootedSlot(signal: AbortSignal): Promise<SlotName> {
    return this.#deps.bootedSlot(signal);
  }

  async onTrial(signal: AbortSignal): Promise<boolean> {
    const booted = await this.#deps.bootedSlot(signal);
    return this.#inTurn(async () => this.#deps.environment.onTrial(await this.#deps.environment.read(signal), booted));
  }

  canary(signal: AbortSignal): Promise<void> {
    return this.#inTurn(() => this.#deps.environment.testWrite(signal));
  }

  markUnbootable(slot: SlotName, signal: AbortSignal, lastWord?: string): Promise<void> {
    return this.#inTurn(() => this.#change({ kind: 'mark-unbootable', slot, lastWord }, signal));
  }

  async tryOnce(slot: SlotName, evidence: WholeSlot, signal: AbortSignal): Promise<void> {
    assert(evidence.slot === slot, `slot ${slot} is to be armed, and the evidence is of slot ${evidence.slot}`);
    return this.#inTurn(() => this.#change({ kind: 'try-once', slot }, signal));
  }

  commit(slot: SlotName, signal: AbortSignal, otherBoots?: boolean): Promise<void> {
    return this.#inTurn(async () => {
      await this.#change({ kind: 'commit', slot, otherBoots }, signal);
      if (this.#deps.onKept !== undefined && (await this.#deps.bootedSlot(signal)) === slot) await this.#deps.onKept();
    });
  }

  inspect(signal: AbortSignal): Promise<BootState> {
    return this.#inTurn(async () => {
      const state = await this.#deps.environment.read(signal, 'last-words');
      const ofEach = (ask: (slot: SlotName) => boolean) => ({ A: ask('A'), B: ask('B') });
      return {
        ...this.#deps.environment.inspect(state),
        onTrial: ofEach((slot) => this.#deps.environment.onTrial(state, slot)),
        committed: ofEach((slot) => this.#deps.environment.holds(state, { kind: 'commit', slot })),
      };
    });
  }

  async #change(change: BootChange, signal: AbortSignal): Promise<void> {
    const { environment } = this.#deps;
    const before = await environment.read(signal);
    await this.#refuseUnsafe(before, change, signal);
    const after = (await environment.change(before, change, signal)) ?? (await environment.read(signal));
    if (environment.holds(after, change)) return;
    throw notConfirmed(`${environment.title}: ${phrases[change.kind](change.slot)}`);
  }

  async #refuseUnsafe(state: State, change: BootChange, signal: AbortSignal): Promise<void> {
    const { kind, slot } = change;
    if (kind !== 'commit') {
      if (this.#deps.environment.canDisableSlot(state, change)) return;
      const other = otherSlot(slot);
      throw new BootloaderError(
        'no-fallback-slot',
        `${phrases[kind](slot)}: it is unknown whether slot ${other} boots`,
        {
          advice: `if slot ${slot} is running, install a version into slot ${other} first: agent --update-now; otherwise check slot ${other}: agent status`,
        },
      );
    }
    if (this.#deps.environment.inspect(state).slots[slot].bootable || (await this.#deps.bootedSlot(signal)) === slot)
      return;
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
