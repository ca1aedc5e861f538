import type { Follow } from '../../../src/update/policy/choose.ts';
import type { BootKind, Delivery } from '../../fakes/machine/boot-machines.ts';
import type { Form } from './gateway/catalog.ts';

/** Actions of the service operator or of an operator at the gateway. An interrupted action is not repeated. */
export type Deed =
  /** After a year the clock is set, too, if it was not. */
  | { readonly do: 'target'; readonly version: string | undefined; readonly after?: 'a year' }
  /** One check of the daemon. */
  | { readonly do: 'look' }
  /** Looks until nothing is left to do. */
  | { readonly do: 'rest' }
  /** The same, and an operator reboots if required. */
  | { readonly do: 'finish' }
  | { readonly do: 'update'; readonly reboot: boolean; readonly force: boolean }
  | { readonly do: 'install'; readonly version: string }
  | { readonly do: 'rollback'; readonly reboot?: false }
  | { readonly do: 'cancel' }
  | { readonly do: 'commit' }
  | { readonly do: 'reboot' }
  /**
   * By a user who knows nothing of a trial: `systemctl reboot`. Then the state partition may be missing for a while.
   */
  | { readonly do: 'foreign-reboot'; readonly withoutState?: true }
  /** Decides while the trial is being judged, which gives way. */
  | { readonly do: 'overrule'; readonly by: 'commit' | 'rollback' }
  /** The committed slot no longer starts, until the bootloader discards it. */
  | { readonly do: 'fall-back' }
  /** The card continues in hardware with another serial number. */
  | { readonly do: 'move-card' };

export interface Scenario {
  readonly name: string;
  readonly boot: BootKind;
  readonly form: Form;
  readonly follow: Follow;
  /** The boot environment of a new gateway. Default: the usual one. */
  readonly delivery?: Delivery | undefined;
  readonly imagesNameThemselves: boolean;
  /** Conditions of its own reboots: the morning, and a program of the gateway. Default: none. */
  readonly waitsFor?: 'window' | 'window and hooks' | undefined;
  /** Before anything can go wrong. */
  readonly prologue: readonly Deed[];
  /** Then the gateway is left alone until it rests. */
  readonly story: readonly Deed[];
  /** The final running version. */
  readonly wants: string;
  /** Versions that may run instead after an interruption: an action was not done. */
  readonly mayMiss: readonly string[];
  /**
   * Versions that may run instead after a fault, or more interruptions than a version has trials: the gateway rolled
   * back.
   */
  readonly mayRun: readonly string[];
  /** Results of the attempts in the undisturbed story, as reported to the service. */
  readonly ends: readonly string[];
}

type Optional = 'prologue' | 'form' | 'follow' | 'imagesNameThemselves' | 'mayMiss' | 'mayRun';
export type Story = Omit<Scenario, 'name' | 'boot' | 'delivery' | Optional> &
  Partial<Pick<Scenario, Optional>> & {
    /** Bootloaders with which it cannot happen. */
    readonly never?: readonly BootKind[];
    /** It is about this, and about no other bootloader. */
    readonly deliveries?: Readonly<Partial<Record<BootKind, Delivery>>>;
  };

export const rest: Deed = { do: 'rest' };
export const look: Deed = { do: 'look' };
export const target = (version: string | undefined): Deed => ({ do: 'target', version });
