import assert from 'node:assert';

import { AgentError } from '../../../../src/system/errors.ts';
import type { Bootloader, BootState, SlotName, WholeSlot } from '../../../../src/update/ports.ts';
import { otherSlot } from '../../../../src/update/slot.ts';
import type { Power } from '../power.ts';

interface Environment {
  readonly order: readonly SlotName[];
  readonly left: Readonly<Record<SlotName, number>>;
  /** The armed slot until it is committed or discarded. */
  readonly trial: SlotName | undefined;
  readonly lastWords: Readonly<Partial<Record<SlotName, string>>>;
}

const ATTEMPTS = 3;

/**
 * A boot environment with U-Boot's meaning: an order and a counter per slot that runs down with each boot. Each method
 * of the port is one atomic write; a write that the power cuts has happened or not.
 */
export class MemoryBootloader implements Bootloader {
  readonly trialRebootArgument = undefined;
  readonly #power: Power;
  readonly #random: () => number;
  #environment: Environment = {
    order: ['A', 'B'],
    left: { A: ATTEMPTS, B: 0 },
    trial: undefined,
    lastWords: {},
  };
  /** Every slot that a caller armed, with the digest that its evidence names. */
  readonly armed: { readonly slot: SlotName; readonly digest: string }[] = [];
  booted: SlotName = 'A';
  /** Makes every write fail. */
  broken = false;

  constructor(power: Power, random: () => number) {
    this.#power = power;
    this.#random = random;
  }

  /** Starts the machine as the bootloader does: the first slot of the order with attempts left. */
  boot(): SlotName | undefined {
    const slot = this.bootable[0];
    if (slot === undefined) return undefined;
    const { left } = this.#environment;
    this.#environment = { ...this.#environment, left: { ...left, [slot]: left[slot] - 1 } };
    this.booted = slot;
    return slot;
  }

  /** Uses up the attempts of the first slot of the order. */
  giveUpPrimary(): void {
    const { left } = this.#environment;
    const [primary] = this.bootable;
    if (primary !== undefined) this.#environment = { ...this.#environment, left: { ...left, [primary]: 0 } };
  }

  /** Slots in the order in which they would boot if the previous ones fail. */
  get bootable(): readonly SlotName[] {
    return this.#environment.order.filter((slot) => this.#environment.left[slot] > 0);
  }

  async bootedSlot(): Promise<SlotName> {
    return this.booted;
  }

  async onTrial(): Promise<boolean> {
    return this.#wouldBeOnTrial(this.booted);
  }

  #wouldBeOnTrial(slot: SlotName): boolean {
    const { order, trial } = this.#environment;
    return trial === slot || !order.includes(slot);
  }

  async canary(): Promise<void> {
    this.#write('canary', this.#environment);
  }

  async markUnbootable(slot: SlotName, _signal?: AbortSignal, lastWord?: string): Promise<void> {
    const { order, left, lastWords } = this.#environment;
    if (left[otherSlot(slot)] === 0) {
      const message = `marking slot ${slot} unbootable: the other slot is not known to boot`;
      throw new AgentError({ code: 'no-fallback-slot', message, remedy: 'give-up', exit: 'refused' });
    }
    this.#write(`mark ${slot} unbootable`, {
      order: order.filter((name) => name !== slot),
      left: { ...left, [slot]: 0 },
      trial: this.#trialBut(slot),
      lastWords: { ...lastWords, [slot]: lastWord },
    });
  }

  async tryOnce(slot: SlotName, evidence: WholeSlot): Promise<void> {
    assert(evidence.slot === slot, `the evidence is of slot ${evidence.slot}`);
    const other = otherSlot(slot);
    this.#write(`try ${slot}`, {
      order: [slot, other],
      left: { ...this.#environment.left, [slot]: 1 },
      trial: slot,
      lastWords: {},
    });
    this.armed.push({ slot, digest: evidence.digest });
  }

  async commit(slot: SlotName): Promise<void> {
    const { order, left } = this.#environment;
    const others = order.filter((name) => name !== slot);
    this.#write(`commit ${slot}`, {
      ...this.#environment,
      order: [slot, ...others],
      left: { ...left, [slot]: ATTEMPTS },
      trial: this.#trialBut(slot),
    });
  }

  async inspect(): Promise<BootState> {
    const { order, left, trial, lastWords } = this.#environment;
    const detail = (slot: SlotName): BootState['slots'][SlotName] => ({
      bootable: this.bootable.includes(slot),
      detail: `${left[slot]} attempts left`,
      lastWord: lastWords[slot],
    });
    const slots = { A: detail('A'), B: detail('B') };
    const onTrial = { A: this.#wouldBeOnTrial('A'), B: this.#wouldBeOnTrial('B') };
    const isCommitted = (slot: SlotName): boolean =>
      order[0] === slot && left[slot] === ATTEMPTS && this.#trialBut(slot) === trial;
    const committed = { A: isCommitted('A'), B: isCommitted('B') };
    return { primary: this.bootable[0] ?? this.booted, slots, onTrial, committed };
  }

  #trialBut(slot: SlotName): SlotName | undefined {
    return this.#environment.trial === slot ? undefined : this.#environment.trial;
  }

  #write(name: string, next: Environment): void {
    if (this.broken) {
      throw new AgentError({
        code: 'boot-environment-unwritable',
        message: `boot environment: ${name} failed`,
        remedy: 'give-up',
        exit: 'disk',
      });
    }
    this.#power.need(`boot environment: ${name}`);
    const before = this.#environment;
    this.#environment = next;
    try {
      this.#power.step(`boot environment: ${name}`);
    } catch (error) {
      if (this.#random() < 0.5) this.#environment = before;
      throw error;
    }
  }
}
