import type { BootNames } from '../../config/config.ts';
import type { BootState, SlotName } from '../../update/ports.ts';

/** One of the changes that the Bootloader port knows. */
export interface BootChange {
  readonly kind: 'mark-unbootable' | 'try-once' | 'commit';
  readonly slot: SlotName;
  /** Of `mark-unbootable`: the code of an error, kept where there is a place for it. */
  readonly lastWord?: string | undefined;
}

/** The rest of a BootState follows from `onTrial`. */
export type SaidOfSlots = Omit<BootState, 'onTrial'>;

/**
 * Where one bootloader keeps its choice. `State` is what it says now. EnvironmentBootloader makes a Bootloader of it:
 * reads, refuses what is unsafe, changes, reads again and compares.
 */
export interface BootEnvironment<State> {
  /** For messages, e.g. `U-Boot environment`. */
  readonly title: string;
  /** Throws BootloaderError rather than guess. Last words may take questions of their own: they are asked for if wanted. */
  read(signal: AbortSignal, also?: 'last-words'): Promise<State>;
  inspect(state: State): SaidOfSlots;
  /** Whether the boot of this slot, which runs, falls back by itself unless it is committed. */
  onTrial(state: State, booted: SlotName): boolean;
  /** Of `mark-unbootable` and `try-once`: whether the other slot is known to boot by itself. */
  canSpare(state: State, change: BootChange): boolean;
  /**
   * Makes one change that is safe wherever a power cut falls. A write that has begun is not abandoned on abort. Returns what
   * it read after its last write, if it did: nobody reads that twice.
   */
  change(state: State, change: BootChange, signal: AbortSignal): Promise<State | undefined>;
  /** Whether a state that was read after the change is what was asked for. */
  holds(state: State, change: BootChange): boolean;
  /** Changes something harmless and reads it back. */
  canary(signal: AbortSignal): Promise<void>;
}

export function otherSlot(slot: SlotName): SlotName {
  return slot === 'A' ? 'B' : 'A';
}

/** For a write in progress: cancelling the update must not tear it; its deadline still holds. */
export const uninterrupted: AbortSignal = new AbortController().signal;

export function slotNamed(bootName: string, names: BootNames): SlotName | undefined {
  if (bootName === names.A) return 'A';
  return bootName === names.B ? 'B' : undefined;
}
