import type { InstallOptions } from '../../control/operations.ts';
import type { CommandEntry } from './command-table.ts';

/** The arguments of one start of the program. */
export interface ParsedCommand {
  readonly configFile: string | undefined;
  readonly json: boolean;
  readonly command: Command;
}

/** What was typed, whole and valid, or what is wrong with it. */
export type Command =
  | { readonly kind: 'help'; readonly entry: CommandEntry | undefined }
  | { readonly kind: 'version' }
  | { readonly kind: 'run' }
  | { readonly kind: 'report'; readonly report: 'status' | 'check' | 'doctor' }
  | { readonly kind: 'explain'; readonly code: string }
  | { readonly kind: 'config'; readonly what: 'check' | 'show' | 'schema' }
  | { readonly kind: 'operation'; readonly operation: OperationCommand }
  | { readonly kind: 'request'; readonly request: RequestCommand }
  | UsageError;

/** What takes its time and is followed. */
export type OperationCommand =
  | { readonly name: 'update-now'; readonly options: InstallOptions }
  | { readonly name: 'install'; readonly path: string; readonly options: InstallOptions }
  | { readonly name: 'rollback'; readonly options: InstallOptions }
  | { readonly name: 'commit' }
  | { readonly name: 'cancel' }
  | { readonly name: 'mcu-flash'; readonly board: string; readonly path: string }
  | { readonly name: 'mcu-restore'; readonly board: string };

/** What is asked and answered. */
export type RequestCommand =
  | { readonly name: 'activate' }
  | { readonly name: 'reboot' }
  | { readonly name: 'forget'; readonly version: string }
  | { readonly name: 'spool-status' }
  | { readonly name: 'spool-flush' }
  | { readonly name: 'mcu-list' }
  | { readonly name: 'mcu-probe'; readonly board: string }
  | { readonly name: 'mcu-plan'; readonly board: string; readonly path: string }
  | { readonly name: 'mcu-reset'; readonly board: string }
  | { readonly name: 'property-get'; readonly id: string }
  | { readonly name: 'property-set'; readonly id: string; readonly value: unknown }
  | {
      readonly name: 'datapoint-send';
      readonly event: string;
      readonly value: unknown;
      /** ISO 8601, UTC. */
      readonly at: string | undefined;
    };

export interface UsageError {
  readonly kind: 'usage-error';
  readonly message: string;
  /** What was meant, or how the command is written. */
  readonly advice: string;
}
