import type { SlotName } from '../../update/ports.ts';
import { otherSlot, slotNamed } from './boot-environment.ts';
import type { BootChange, BootEnvironment, BootNames, SlotBootStates } from './boot-environment.ts';
import type { BootPrograms } from './boot-programs.ts';
import { slotOfHandler } from './booted-slot.ts';
import type { LoadedBootloader } from './bootloader-kind.ts';
import type { customSettings } from './bootloaders.ts';
import { BootloaderError } from './errors.ts';
import { isExitReason } from './variables/trial-mark.ts';

/** The state that a handler tells. */
export interface HandlerState {
  /** Omitted if it names none, because the primary slot is bad. */
  readonly primary: SlotName | undefined;
  readonly good: Readonly<Record<SlotName, boolean>>;
  /** The error code with which the agent abandoned a slot. Undefined, too, if it was not requested. */
  readonly lastWords: Readonly<Record<SlotName, string | undefined>>;
}

const NO_WORD = 'none';

export interface HandlerDeps {
  readonly programs: BootPrograms;
  /** The path of the program. */
  readonly handler: string;
  readonly names: BootNames;
}

/**
 * A program of the integrator with RAUC's interface (RAUC documentation, "Integration", section Custom). README.md in
 * this directory has the further requirements for a working trial. A change may take two calls, in an order that makes
 * a power loss in between safe: a slot is marked bad before the other one becomes primary, and good before it becomes
 * primary for good. At every moment a slot that is known to be good still boots.
 */
export class Handler implements BootEnvironment<HandlerState> {
  readonly title: string;
  readonly #deps: HandlerDeps;

  constructor(deps: HandlerDeps) {
    this.title = `bootloader handler ${deps.handler}`;
    this.#deps = deps;
  }

  async read(signal: AbortSignal, also?: 'last-words'): Promise<HandlerState> {
    const primary = await this.#primary(signal);
    const good = { A: await this.#isGood('A', signal), B: await this.#isGood('B', signal) };
    const word = async (slot: SlotName): Promise<string | undefined> =>
      also === undefined || good[slot] ? undefined : this.#lastWordOf(slot, signal);
    return { primary, good, lastWords: { A: await word('A'), B: await word('B') } };
  }

  inspect({ primary, good, lastWords }: HandlerState): SlotBootStates {
    const onlyGood = (['A', 'B'] as const).find((slot) => good[slot] && !good[otherSlot(slot)]);
    const first = primary ?? onlyGood;
    if (first === undefined) throw this.#failed('get-primary names no slot', 'boot-environment-invalid');
    const describe = (slot: SlotName) => ({
      bootable: good[slot],
      detail: `${good[slot] ? 'enabled' : 'disabled'} in the boot environment`,
      lastWord: lastWords[slot],
    });
    return { primary: first, slots: { A: describe('A'), B: describe('B') } };
  }

  /**
   * A slot on trial is not good until `set-state good`, and there is a good slot to fall back to. Ignores
   * `get-primary`: many handlers print the last argument of `set-primary`.
   */
  onTrial({ good }: HandlerState, booted: SlotName): boolean {
    return !good[booted] && good[otherSlot(booted)];
  }

  canDisableSlot({ good }: HandlerState, { kind, slot }: BootChange): boolean {
    return good[otherSlot(slot)] || (kind === 'mark-unbootable' && !good[slot]);
  }

  async change({ good }: HandlerState, change: BootChange, signal: AbortSignal): Promise<HandlerState | undefined> {
    const { names } = this.#deps;
    const { kind, slot, lastWord } = change;
    switch (kind) {
      case 'mark-unbootable': {
        if (lastWord !== undefined) await this.#sayLast(slot, lastWord, signal);
        await this.#set(['set-state', names[slot], 'bad'], signal);
        const now = await this.read(signal);
        if (now.primary === otherSlot(slot)) return now;
        await this.#set(['set-primary', names[otherSlot(slot)]], signal);
        return undefined;
      }
      case 'try-once': {
        const word = good[slot] ? undefined : await this.#lastWordOf(slot, signal);
        if (word !== undefined) await this.#sayLast(slot, NO_WORD, signal);
        // never `set-state good`, which some handlers take as the commit
        await this.#set(['set-primary', names[slot]], signal);
        return undefined;
      }
      case 'commit': {
        // first, since some handlers take it as the commit of the other slot
        const other = otherSlot(slot);
        if (change.otherBoots === true && !good[other]) await this.#set(['set-state', names[other], 'good'], signal);
        await this.#set(['set-state', names[slot], 'good'], signal);
        const now = await this.read(signal);
        if (now.primary === slot) return now;
        await this.#set(['set-primary', names[slot]], signal);
        await this.#set(['set-state', names[slot], 'good'], signal);
        return undefined;
      }
    }
  }

  holds({ primary, good }: HandlerState, { kind, slot }: BootChange): boolean {
    switch (kind) {
      case 'mark-unbootable':
        return !good[slot] && primary === otherSlot(slot);
      case 'try-once':
        return primary === slot;
      case 'commit':
        return primary === slot && good[slot];
    }
  }

  /**
   * Asks every question and changes nothing: `set-primary` could arm a trial, `set-state good` commit one, and
   * `set-state bad` end one. Whether writing works is shown in time by the first change of an update, which marks the
   * staging slot.
   */
  async testWrite(signal: AbortSignal): Promise<void> {
    this.inspect(await this.read(signal));
  }

  /** Calls the optional `get-current`. */
  async current(signal: AbortSignal): Promise<SlotName> {
    const answer = await this.#ask(['get-current'], signal);
    return slotNamed(answer, this.#deps.names) ?? this.#unknown('get-current', answer);
  }

  /**
   * Calls the optional `get-last-word`. The form of its answer is one that a handler without it does not print by
   * chance.
   */
  async #lastWordOf(slot: SlotName, signal: AbortSignal): Promise<string | undefined> {
    const name = this.#deps.names[slot];
    const [command, ...args] = this.#call(['get-last-word', name]).command;
    const answer = (await this.#deps.programs.probe([command, ...args], signal)).trim();
    const word = answer.startsWith(`${name}:`) ? answer.slice(name.length + 1) : NO_WORD;
    return word !== NO_WORD && isExitReason(word) ? word : undefined;
  }

  /** Calls the optional `set-last-word`. With a handler that lacks it, only the reason is lost. */
  async #sayLast(slot: SlotName, word: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#set(['set-last-word', this.#deps.names[slot], word], signal);
    } catch (error) {
      if (!(error instanceof BootloaderError)) throw error;
    }
  }

  async #primary(signal: AbortSignal): Promise<SlotName | undefined> {
    const answer = await this.#ask(['get-primary'], signal);
    if (answer === '') return undefined;
    return slotNamed(answer, this.#deps.names) ?? this.#unknown('get-primary', answer);
  }

  async #isGood(slot: SlotName, signal: AbortSignal): Promise<boolean> {
    const question = ['get-state', this.#deps.names[slot]] as const;
    const answer = await this.#ask(question, signal);
    if (answer === 'good' || answer === 'bad') return answer === 'good';
    throw this.#failed(`${question.join(' ')} prints "${answer.slice(0, 40)}" instead of good or bad`);
  }

  async #ask(args: readonly string[], signal: AbortSignal): Promise<string> {
    return (await this.#deps.programs.read(this.#call(args), signal)).stdout.trim();
  }

  #set(args: readonly string[], signal: AbortSignal): Promise<void> {
    return this.#deps.programs.write(this.#call(args), signal);
  }

  #call(args: readonly string[]) {
    const command = [this.#deps.handler, ...args] as const;
    return { command, code: 'handler-failed', advice: 'run the handler by hand' } as const;
  }

  #unknown(question: string, answer: string): never {
    const { A, B } = this.#deps.names;
    throw this.#failed(`${question} prints "${answer.slice(0, 40)}", which is neither ${A} nor ${B}`);
  }

  #failed(why: string, code: 'handler-failed' | 'boot-environment-invalid' = 'handler-failed'): BootloaderError {
    return new BootloaderError(code, `${this.title}: ${why}`, { advice: 'run the handler by hand' });
  }
}

export const custom: LoadedBootloader<typeof customSettings> = {
  create: ({ handler, names }, { programs, over }) => {
    const environment = new Handler({ programs, handler, names });
    return over(environment, { clues: [slotOfHandler(async (signal) => environment.current(signal))] });
  },
  inspectStorage: async () => ({}),
};
