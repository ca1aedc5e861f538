import assert from 'node:assert';
import { isDeepStrictEqual } from 'node:util';

import { BootloaderError } from '../../../../src/slots/bootloaders/errors.ts';
import type { Bootloader, BootState, SlotName, WholeSlot } from '../../../../src/update/ports.ts';
import { otherSlot } from '../../../../src/update/slot.ts';
import type { Power } from '../power.ts';

/** `counters`: an order and a counter per slot, like U-Boot. `one-shot`: the reboot requests a trial, like tryboot. */
export type FakeStyle = 'counters' | 'one-shot';

interface Environment {
  readonly order: readonly SlotName[];
  readonly left: Readonly<Record<SlotName, number>>;
  /** The armed slot until it is committed or discarded. */
  readonly trial: SlotName | undefined;
  readonly lastWords: Readonly<Partial<Record<SlotName, string>>>;
}

/**
 * A boot environment in memory and its bootloader. Each change is one atomic write, one step of the power supply: an
 * interrupted write has happened or not, by `random`. Everything but the port is synchronous.
 */
export class FakeBootloader implements Bootloader {
  readonly attempts = 3;
  readonly trialRebootArgument: string | undefined;
  readonly #power: Power;
  readonly #random: () => number;
  #environment: Environment = { order: ['A'], left: { A: this.attempts, B: 0 }, trial: undefined, lastWords: {} };
  /** Every slot that a caller armed, with the digest that its evidence names. */
  readonly armed: { readonly slot: SlotName; readonly digest: string }[] = [];
  booted: SlotName = 'A';
  /** Makes every write fail. */
  broken = false;
  /** Makes every read fail. */
  unreadable = false;
  /** Writes that changed something. */
  changes = 0;
  /** Only its counters say what is a trial. */
  guesses = false;

  constructor(power: Power, random: () => number, style: FakeStyle = 'counters') {
    this.#power = power;
    this.#random = random;
    this.trialRebootArgument = style === 'one-shot' ? '0 tryboot' : undefined;
  }

  /** Starts the machine as the bootloader does. `argument` comes from the reboot command; a power loss has none. */
  boot(argument?: string): SlotName {
    const slot = this.#isOneShot ? this.#standingOrTried(argument) : this.#countDown();
    this.booted = slot;
    return slot;
  }

  /** Slots in the order in which they would boot if the previous ones fail. */
  get bootable(): readonly SlotName[] {
    return this.#environment.order.filter((slot) => this.#environment.left[slot] > 0);
  }

  get #isOneShot(): boolean {
    return this.trialRebootArgument !== undefined;
  }

  /** One-shot: the last of the order stands, the first is tried. */
  #standingOrTried(argument: string | undefined): SlotName {
    const { order } = this.#environment;
    return (argument === this.trialRebootArgument ? order[0] : order.at(-1)) ?? this.booted;
  }

  #countDown(): SlotName {
    if (this.bootable.length === 0) this.#startAnew();
    const slot = this.bootable[0] ?? this.booted;
    const { order, left } = this.#environment;
    this.#environment = { ...this.#environment, order, left: { ...left, [slot]: left[slot] - 1 } };
    return slot;
  }

  #startAnew(): void {
    const { order } = this.#environment;
    const left = (slot: SlotName) => (order.includes(slot) ? this.attempts : 0);
    this.#environment = { ...this.#environment, order, left: { A: left('A'), B: left('B') } };
  }

  async bootedSlot(signal: AbortSignal): Promise<SlotName> {
    this.#look(signal);
    return this.booted;
  }

  async onTrial(signal: AbortSignal): Promise<boolean> {
    this.#look(signal);
    return this.#wouldBeOnTrial(this.booted);
  }

  #wouldBeOnTrial(slot: SlotName): boolean {
    const { order, trial } = this.#environment;
    if (this.#isOneShot) return order.at(-1) !== slot;
    return order.includes(otherSlot(slot)) && (trial === slot || !order.includes(slot));
  }

  async canary(signal: AbortSignal): Promise<void> {
    this.#look(signal);
    this.#write('canary', this.#environment);
  }

  async markUnbootable(slot: SlotName, signal: AbortSignal, lastWord?: string): Promise<void> {
    this.#look(signal);
    this.#refuseWithoutFallback(slot);
    const { order, left, lastWords } = this.#environment;
    const kept = order.filter((name) => name !== slot);
    this.#write(`mark ${slot} unbootable`, {
      order: kept,
      left: { ...left, [slot]: 0 },
      trial: this.#trialBut(slot),
      lastWords: { ...lastWords, [slot]: lastWord },
    });
  }

  async tryOnce(slot: SlotName, evidence: WholeSlot, signal: AbortSignal): Promise<void> {
    assert(evidence.slot === slot, `the evidence is of slot ${evidence.slot}`);
    this.#look(signal);
    this.#refuseWithoutFallback(slot);
    const left = { A: this.attempts, B: this.attempts, ...(this.#isOneShot ? {} : { [slot]: 1 }) };
    this.#write(`try ${slot}`, { order: [slot, otherSlot(slot)], left, trial: slot, lastWords: {} });
    this.armed.push({ slot, digest: evidence.digest });
  }

  async commit(slot: SlotName, signal: AbortSignal, otherBoots = false): Promise<void> {
    this.#look(signal);
    const { order, left } = this.#environment;
    if (!order.includes(slot) && slot !== this.booted) {
      throw new BootloaderError('slot-unbootable', `fake: slot ${slot} is marked unbootable and does not run`);
    }
    const others = otherBoots ? [otherSlot(slot)] : order.filter((name) => name !== slot);
    const next = this.#isOneShot ? [...others, slot] : [slot, ...others];
    const trial = otherBoots ? undefined : this.#trialBut(slot);
    const { lastWords } = this.#environment;
    this.#write(`commit ${slot}`, {
      order: next,
      left: { ...left, ...(otherBoots && { [otherSlot(slot)]: this.attempts }), [slot]: this.attempts },
      trial,
      lastWords,
    });
  }

  async inspect(signal: AbortSignal): Promise<BootState> {
    this.#look(signal);
    const { order, left, trial, lastWords } = this.#environment;
    const describe = (slot: SlotName) => ({
      bootable: order.includes(slot) && (left[slot] > 0 || this.bootable.length === 0),
      detail: `${left[slot]} attempts left`,
      lastWord: lastWords[slot],
    });
    const next = this.#isOneShot ? order.at(-1) : (this.bootable[0] ?? order[0]);
    const primary = next ?? this.booted;
    const slots = { A: describe('A'), B: describe('B') };
    const onTrial = { A: this.#wouldBeOnTrial('A'), B: this.#wouldBeOnTrial('B') };
    const isCommitted = (slot: SlotName): boolean =>
      next === slot && this.#trialBut(slot) === trial && (this.#isOneShot || left[slot] === this.attempts);
    const committed = { A: isCommitted('A'), B: isCommitted('B') };
    return { primary, trialIsGuessed: this.guesses, slots, onTrial, committed };
  }

  #trialBut(slot: SlotName): SlotName | undefined {
    return this.#environment.trial === slot ? undefined : this.#environment.trial;
  }

  #refuseWithoutFallback(slot: SlotName): void {
    const { order, left, trial } = this.#environment;
    const spare = otherSlot(slot);
    const known = this.#isOneShot ? order.at(-1) === spare : trial !== spare && (left[spare] > 0 || left[slot] === 0);
    if (order.includes(spare) && known) return;
    throw new BootloaderError('no-fallback-slot', `fake: slot ${spare} is not known to boot`);
  }

  #look(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.unreadable) throw new BootloaderError('boot-environment-unreadable', 'fake: made unreadable');
  }

  #write(what: string, next: Environment): void {
    if (this.broken) throw new BootloaderError('boot-environment-unwritable', `fake: ${what} failed`);
    this.#power.need(`boot environment: ${what}`);
    const before = this.#environment;
    if (!isDeepStrictEqual(before, next)) this.changes += 1;
    this.#environment = next;
    try {
      this.#power.step(`boot environment: ${what}`);
    } catch (error) {
      if (this.#random() < 0.5) this.#environment = before;
      throw error;
    }
  }
}
