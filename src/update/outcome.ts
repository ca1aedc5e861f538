import type { Hold } from './choice/plan.ts';
import type { SlotName } from './ports.ts';

/** How far an update came, or one step of it. */
export type Outcome =
  /** Nothing is under way; updates may begin. */
  | { readonly kind: 'settled' }
  | { readonly kind: 'installed'; readonly version: string }
  | { readonly kind: 'rolled-back'; readonly version: string; readonly reason: string }
  /** The machine is about to reboot into the slot, or must; nothing else may begin. */
  | { readonly kind: 'rebooting'; readonly version: string; readonly slot: SlotName }
  | GoingBack
  /** A person asked to reboot by hand; nothing else may begin. */
  | { readonly kind: 'reboot-required'; readonly version: string; readonly slot: SlotName }
  /** It goes on later, by a window or when a person lifts a hold; nothing else may begin. */
  | ({ readonly kind: 'held-back'; readonly version: string } & Hold);

/** The same reboot, into the slot that was left for this version, which is left again for that reason. */
export interface GoingBack {
  readonly kind: 'rebooting';
  readonly version: string;
  readonly slot: SlotName;
  readonly reason: string;
  readonly goesBack: true;
}

type Of<Kind extends Outcome['kind']> = Extract<Outcome, { readonly kind: Kind }>;

/** Of an installation, or of going back. */
export type InstallOutcome = Of<'installed' | 'rolled-back' | 'rebooting' | 'reboot-required' | 'held-back'>;

export type HeldBack = Of<'held-back'>;

/** Of a trial that was judged; `rolled-back`: boards alone were on trial, and are as they were. */
export type TrialEnd = Of<'installed' | 'rolled-back'> | GoingBack;
export type RolledBack = Of<'rolled-back'>;
