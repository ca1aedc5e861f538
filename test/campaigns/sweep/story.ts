import type { Follow } from '../../../src/update/policy/choose.ts';
import type { BootKind, Delivery } from '../../fakes/machine/boot-machines.ts';
import type { Form } from './gateway/catalog.ts';

/** What the service's operator or a person at the gateway does. A deed that is cut is not done again. */
export type Deed =
  /** After a year the clock is set, too, if it was not. */
  | { readonly do: 'target'; readonly version: string | undefined; readonly after?: 'a year' }
  /** One look of the daemon. */
  | { readonly do: 'look' }
  /** Looks until nothing is left to do. */
  | { readonly do: 'rest' }
  /** The same, and a person reboots what waits for that. */
  | { readonly do: 'finish' }
  | { readonly do: 'update'; readonly reboot: boolean; readonly force: boolean }
  | { readonly do: 'install'; readonly version: string }
  | { readonly do: 'rollback'; readonly reboot?: false }
  | { readonly do: 'cancel' }
  | { readonly do: 'commit' }
  | { readonly do: 'reboot' }
  /** Of somebody who knows nothing of a trial: `systemctl reboot`. Then the state partition may be missing for a while. */
  | { readonly do: 'foreign-reboot'; readonly withoutState?: true }
  /** Decides while the trial is being judged, which gives way. */
  | { readonly do: 'overrule'; readonly by: 'commit' | 'rollback' }
  /** What was committed does not come up any more, until the bootloader gives it up. */
  | { readonly do: 'fall-back' };

export interface Scenario {
  readonly name: string;
  readonly boot: BootKind;
  readonly form: Form;
  readonly follow: Follow;
  /** What the bootloader says when the gateway is new; undefined: what is usual. */
  readonly delivery?: Delivery | undefined;
  readonly imagesNameThemselves: boolean;
  /** Before it reboots by itself: for the morning, and for a program of the gateway; undefined: for nothing. */
  readonly waitsFor?: 'window' | 'window and hooks' | undefined;
  /** Before anything can go wrong. */
  readonly prologue: readonly Deed[];
  /** Then the gateway is left alone until it rests. */
  readonly story: readonly Deed[];
  /** What runs at the end. */
  readonly wants: string;
  /** What may run instead after a cut: a deed was not done. */
  readonly mayMiss: readonly string[];
  /** What may run instead after a fault, or more cuts than a version has trials: the gateway went back by itself. */
  readonly mayRun: readonly string[];
  /** How the attempts of the undisturbed story end, as the service is told. */
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
