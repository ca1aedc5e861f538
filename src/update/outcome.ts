import type { DeferralCode } from '../control/gateway-state.ts';
import type { SlotName } from './ports.ts';

/** Why nothing starts now. */
export interface Deferral {
  readonly code: DeferralCode;
  readonly reason: string;
}

/** How far an update, or a step of it, has come. */
export type Outcome =
  /** Nothing is under way; updates may begin. */
  | { readonly kind: 'settled' }
  | { readonly kind: 'installed'; readonly version: string }
  | { readonly kind: 'rolled-back'; readonly version: string; readonly reason: string }
  /** The machine is about to reboot into the slot, or must; nothing else may begin. */
  | { readonly kind: 'rebooting'; readonly version: string; readonly slot: SlotName }
  | RollbackReboot
  /** A person wants to reboot by hand; nothing else may begin. */
  | { readonly kind: 'reboot-required'; readonly version: string; readonly slot: SlotName }
  /** It continues later, in a window or when a person lifts a hold; nothing else may begin. */
  | ({ readonly kind: 'deferred'; readonly version: string } & Deferral);

/** A reboot like the one above, out of the slot of this version, which is left for this reason. */
export interface RollbackReboot {
  readonly kind: 'rebooting';
  readonly version: string;
  readonly slot: SlotName;
  readonly reason: string;
  readonly goesBack: true;
}

type Of<Kind extends Outcome['kind']> = Extract<Outcome, { readonly kind: Kind }>;

/** How an installation, or going back, ended. */
export type InstallOutcome = Of<'installed' | 'rolled-back' | 'rebooting' | 'reboot-required' | 'deferred'>;

export type Deferred = Of<'deferred'>;

/** How a judged trial ended. `rolled-back`: boards alone were on trial, and are as they were before. */
export type TrialResult = Of<'installed' | 'rolled-back'> | RollbackReboot;
export type RolledBack = Of<'rolled-back'>;
