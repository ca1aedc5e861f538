import type { SlotName } from '../../../update/ports.ts';
import { uninterrupted } from '../boot-environment.ts';
import type { BootChange, BootEnvironment, BootNames, SlotBootStates } from '../boot-environment.ts';
import { BootloaderError, notConfirmed } from '../errors.ts';
import { canSpareInOrder, changeOrder, inspectOrder, isOnTrial, parseOrder, sameOrder } from './boot-order.ts';
import type { BootOrder } from './boot-order.ts';
import { parseTrialMark } from './trial-mark.ts';
import type { TrialMark } from './trial-mark.ts';

export type Variables = ReadonlyMap<string, string>;

/** A boot environment that consists of named variables. */
export interface VariableStore {
  read(signal: AbortSignal): Promise<Variables>;
  /** Sets all of these variables or none, durably; others are kept. A write that has begun is not abandoned. */
  set(variables: Variables, signal: AbortSignal): Promise<void>;
  /**
   * Throws if the bootloader will read other data than was read here. Compares with the medium, past the page cache,
   * and with the bootloader's own reader.
   */
  confirm(signal: AbortSignal): Promise<void>;
}

/** How a bootloader stores a boot order. `parse` throws BootloaderError. */
export interface OrderSpelling {
  parse(variables: Variables): BootOrder;
  format(order: BootOrder): Variables;
}

export interface VariableEnvironmentDeps {
  readonly title: string;
  readonly store: VariableStore;
  readonly spelling: OrderSpelling;
  readonly attempts: number;
}

const CANARY = 'thing_agent_canary';
/** Malformed values are truncated to this number of characters in messages. */
const MAX_QUOTED = 120;

/** RAUC's scheme of order and counters in the variables of U-Boot or GRUB. */
export class VariableEnvironment implements BootEnvironment<BootOrder> {
  readonly #deps: VariableEnvironmentDeps;

  constructor(deps: VariableEnvironmentDeps) {
    this.#deps = deps;
  }

  get title(): string {
    return this.#deps.title;
  }

  async read(signal: AbortSignal): Promise<BootOrder> {
    return this.#deps.spelling.parse(await this.#deps.store.read(signal));
  }

  inspect(state: BootOrder): SlotBootStates {
    return inspectOrder(state);
  }

  onTrial(state: BootOrder, booted: SlotName): boolean {
    return isOnTrial(state, booted, this.#deps.attempts);
  }

  canDisableSlot(state: BootOrder, { slot }: BootChange): boolean {
    return canSpareInOrder(state, slot);
  }

  async change(state: BootOrder, change: BootChange, signal: AbortSignal): Promise<undefined> {
    const wanted = changeOrder(state, change, this.#deps.attempts);
    if (!sameOrder(wanted, state)) await this.#deps.store.set(this.#deps.spelling.format(wanted), signal);
    await this.#deps.store.confirm(uninterrupted);
    return undefined;
  }

  holds(state: BootOrder, change: BootChange): boolean {
    return sameOrder(changeOrder(state, change, this.#deps.attempts), state);
  }

  async testWrite(signal: AbortSignal): Promise<void> {
    const value = (await this.#deps.store.read(signal)).get(CANARY) === '1' ? '2' : '1';
    await this.#deps.store.set(new Map([[CANARY, value]]), signal);
    await this.#deps.store.confirm(uninterrupted);
    if ((await this.#deps.store.read(signal)).get(CANARY) === value) return;
    throw notConfirmed(`${this.title}: ${CANARY}=${value}`);
  }
}

/** Parses `name=value` lines as fw_printenv and grub-editenv print them. Other lines are parts of longer values. */
export function parseVariables(text: string): Variables {
  const variables = new Map<string, string>();
  for (const line of text.split('\n')) {
    const match = /^([^=\s]+)=(.*)$/.exec(line);
    if (match?.[1] !== undefined && match[2] !== undefined) variables.set(match[1], match[2]);
  }
  return variables;
}

interface VariableReaderDeps {
  /** The name of the environment in messages. */
  readonly title: string;
  readonly advice: string;
  readonly variables: Variables;
}

/** Reads the variables of one bootloader. A missing or malformed one is `boot-environment-invalid`. */
export class VariableReader {
  readonly #from: VariableReaderDeps;

  constructor(from: VariableReaderDeps) {
    this.#from = from;
  }

  order(name: string, names: BootNames): Pick<BootOrder, 'order' | 'others'> {
    return (
      parseOrder(this.text(name), names) ??
      this.fail(`${name}=${this.text(name)}, expected an order such as "${names.A} ${names.B}"`)
    );
  }

  number(name: string, pattern: RegExp, radix: 10 | 16, expected: string): number {
    const value = this.text(name);
    return pattern.test(value) ? Number.parseInt(value, radix) : this.fail(`${name}=${value}, expected ${expected}`);
  }

  trial(name: string, names: BootNames): TrialMark | undefined {
    const value = this.#from.variables.get(name);
    return value === undefined ? undefined : parseTrialMark(value, names);
  }

  text(name: string): string {
    return this.#from.variables.get(name) ?? this.fail(`${name} is not set`);
  }

  fail(why: string): never {
    throw new BootloaderError('boot-environment-invalid', `${this.#from.title}: ${why.slice(0, MAX_QUOTED)}`, {
      advice: this.#from.advice,
    });
  }
}
