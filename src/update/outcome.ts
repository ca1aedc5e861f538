import type { Hold } from './choice/plan.ts';
import type { SlotName } from './ports.ts';

/** How far an update, or a step of it, has come. */
export type Outcome =
  /** Nothing is under way; updates may begin. */
  | { readonly kind: 'settled' }
  | { readonly kind: 'installed'; readonly version: string }
  | { readonly kind: 'rolled-back'; readonly version: string; readonly reason: string }
  /** The machine is about to reboot into the slot, or must; nothing else may begin. */
  | { readonly kind: 'rebooting'; readonly version: string; readonly slot: SlotName }
  | GoingBack
  /** A person wants to reboot by hand; nothing else may begin. */
  | { readonly kind: 'reboot-required'; readonly version: string; readonly slot: SlotName }
  /** It continues later, in a window or when a person lifts a hold; nothing else may begin. */
  | ({ readonly kind: 'held-back'; readonly version: string } & Hold);

/** A reboot like the one above, out of the slot of this version, which is left for this reason. */
export interface GoingBack {
  readonly kind: 'rebooting';
  readonly version: string;
  readonly slot: SlotName;
  readonly reason: string;
  readonly goesBack: true;
}

type Of<Kind extends Outcome['kind']> = Extract<Outcome, { readonly kind: Kind }>;

/** How an installation, or going back, ended. */
export type InstallOutcome = Of<'installed' | 'rolled-back' | 'rebooting' | 'reboot-required' | 'held-back'>;

export type HeldBack = Of<'held-back'>;

/** How a judged trial ended. `rolled-back`: boards alone were on trial, and are as they were before. */
export type TrialEnd = Of<'installed' | 'rolled-back'> | GoingBack;
export type RolledBack = Of<'rolled-back'>;
