import type { BootState, SlotName } from '../../update/ports.ts';

/** The bootloader's names for the slots: in its variables, on the kernel command line, as a handler’s argument. */
export type BootNames = Readonly<Record<SlotName, string>>;

/** One of the changes that the Bootloader port has. */
export interface BootChange {
  readonly kind: 'mark-unbootable' | 'try-once' | 'commit';
  readonly slot: SlotName;
  /** With `mark-unbootable`: the code of an error, which is kept if the environment has a place for it. */
  readonly lastWord?: string | undefined;
  /** With `commit`: the other slot is known to boot, too. */
  readonly otherBoots?: boolean | undefined;
}

/** The part of a BootState from which the rest follows. */
export type SlotBootStates = Omit<BootState, 'onTrial' | 'committed'>;

/**
 * The storage of one bootloader's choice; `State` is its present content. EnvironmentBootloader makes a Bootloader of
 * it: it reads, refuses unsafe changes, changes, reads again and compares.
 */
export interface BootEnvironment<State> {
  /** The name in messages, for example `U-Boot environment`. */
  readonly title: string;
  /**
   * Reads the state, and throws BootloaderError rather than guess. Last words are read only on request, since they may
   * need further questions.
   */
  read(signal: AbortSignal, also?: 'last-words'): Promise<State>;
  inspect(state: State): SlotBootStates;
  /** True if the bootloader abandons this running slot at the next boot unless it is committed. */
  onTrial(state: State, booted: SlotName): boolean;
  /** True if `mark-unbootable` or `try-once` is safe: the other slot is known to boot without a trial. */
  canDisableSlot(state: State, change: BootChange): boolean;
  /**
   * Makes one change, safely against power loss at any point. A write that has begun is not abandoned on abort. Returns
   * the state if it was read after the last write, so that it is not read twice.
   */
  change(state: State, change: BootChange, signal: AbortSignal): Promise<State | undefined>;
  /** True if a state that was read after the change shows that change. */
  holds(state: State, change: BootChange): boolean;
  /** Changes something harmless, and reads it back. */
  testWrite(signal: AbortSignal): Promise<void>;
}

export function otherSlot(slot: SlotName): SlotName {
  return slot === 'A' ? 'B' : 'A';
}

/** The signal for a write in progress: cancelling an update must not tear it. Its deadline still applies. */
export const uninterrupted: AbortSignal = new AbortController().signal;

export function slotNamed(bootName: string, names: BootNames): SlotName | undefined {
  if (bootName === names.A) return 'A';
  return bootName === names.B ? 'B' : undefined;
}
