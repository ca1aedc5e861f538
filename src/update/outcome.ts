import type { OperationOutcome } from '../control/events.ts';
import type { DeferralCode } from '../control/gateway-state.ts';
import type { Attempt, Installed } from './journal/state.ts';

/** The reason why nothing starts now. */
export interface Deferral {
  readonly code: DeferralCode;
  readonly reason: string;
}

type Of<Kind extends OperationOutcome['kind']> = Extract<OperationOutcome, { readonly kind: Kind }>;

export type Deferred = Of<'deferred'> & Deferral;
export type RolledBack = Of<'rolled-back'>;

/** A reboot out of the slot of this version, which is abandoned for this reason. */
export type RollbackReboot = Of<'rebooting'> & { readonly reason: string; readonly goesBack: true };

/** Returns the version of an attempt, for its outcome. */
export function attempted({ version, by }: Attempt): Pick<RolledBack, 'version' | 'isRollback'> {
  return { version: version.name, ...(by === 'rollback' && { isRollback: true }) };
}

/** The same for an attempt that is undone: `installed` runs instead. */
export function undone(attempt: Attempt, installed: Installed | undefined) {
  return { ...attempted(attempt), instead: installed?.version.name };
}

/** The outcome of an installation or a rollback. */
export type InstallOutcome = Of<'installed' | 'rebooting' | 'reboot-required'> | RolledBack | Deferred;

/** The outcome of a step. `settled`: no update is in progress, so one may start. After any other, nothing may start. */
export type Outcome = InstallOutcome | { readonly kind: 'settled' };

/** The outcome of a trial. `rolled-back`: boards alone were on trial, and are as they were before. */
export type TrialResult = Of<'installed'> | RolledBack | RollbackReboot;

/** The changes of a trust list that was applied. */
export type AppliedList = NonNullable<Of<'installed'>['trustList']>;
