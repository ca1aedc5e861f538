import type { Hold } from '../choice/plan.ts';
import type { SlotName } from '../ports.ts';

export type Settled =
  /** Nothing is under way; updates may begin. */
  | { readonly kind: 'settled' }
  | { readonly kind: 'committed'; readonly version: string }
  | { readonly kind: 'rolled-back'; readonly version: string; readonly reason: string }
  /** The machine is about to reboot into the slot, or must; nothing else may begin. */
  | {
      readonly kind: 'rebooting';
      readonly version: string;
      readonly slot: SlotName;
      readonly reason: string;
      /** The version is left, for that reason. */
      readonly goesBack?: boolean;
    }
  /** It goes on later, by the maintenance window; nothing else may begin. */
  | ({ readonly kind: 'held-back'; readonly version: string } & Hold)
  /** A person asked to reboot by hand; nothing else may begin. */
  | { readonly kind: 'awaiting-reboot'; readonly version: string; readonly slot: SlotName };
