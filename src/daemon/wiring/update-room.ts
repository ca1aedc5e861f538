import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { InputOf, InstallFlags } from '../../control/operations.ts';
import type { Look, LookFlags } from '../../update/choice/lookout.ts';
import type { HookPause } from '../../update/hooks/hooks.ts';
import type { Standstill } from '../../update/journal/parts/standstill.ts';
import type { FirmwareSource } from '../../update/ports.ts';
import type { RebootWait, Unarmed } from '../../update/trial/reboot-wait.ts';

/**
 * The update room as the daemon drives it: `Updater` in this process, or one behind the socket of the helper. Calls are
 * made one at a time.
 */
export interface UpdateRoom {
  /** The last look, for `status`. */
  readonly lastLook: Look | undefined;
  readonly rebootWait: RebootWait | undefined;
  readonly hookPause: HookPause | undefined;
  readonly hookTroubles: readonly string[];
  settle(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome | { readonly kind: 'settled' }>;
  look(flags: LookFlags, signal: AbortSignal): Promise<Look>;
  forget(version: string): Promise<readonly string[]>;
  hold(order: InputOf<'hold'>): Promise<Standstill>;
  resume(): Promise<boolean>;
  updateNow(
    flags: InstallFlags & { readonly manual: boolean },
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome>;
  installFile(
    source: FirmwareSource,
    name: string,
    flags: InstallFlags,
    around: { readonly onEvent: OnEvent; readonly signal: AbortSignal },
  ): Promise<OperationOutcome>;
  commit(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  rollback(flags: InstallFlags, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  cancel(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  reboot(argument: string | undefined, signal: AbortSignal): Promise<void>;
  findUnarmed(signal: AbortSignal): Promise<Unarmed | undefined>;
}
