import type { FileReport } from '../control/file-report.ts';
import type { DaemonStatus } from '../control/gateway-state.ts';
import type { AgentOperations, InputOf } from '../control/operations.ts';
import type { OffsetMinutes } from '../control/presentation/time.ts';
import type { DeltaOrder, WrittenDelta } from '../firmware/delta/write-delta.ts';
import type { TrustListFile } from '../firmware/trust/trust-list.ts';
import type { ListOrder } from '../firmware/trust/write-trust-list.ts';
import type { Setup } from '../setup/setup.ts';
import type { CodeMeaning, ErrorMeaning } from '../system/define-errors.ts';
import type { AgentError } from '../system/errors.ts';
import type { OpenedFile } from '../system/files/opened-file.ts';
import type { Clock } from '../system/time/clock.ts';
import type { ScanCandidate, OnProbe, ScanOrder } from '../telemetry/scan/scan-result.ts';
import type { Interruptible } from './interruption.ts';

/** Standard output or standard error. */
export interface TextOutput {
  readonly isTTY: boolean;
  /** The current width of the terminal, or undefined if it is not a terminal. */
  readonly columns: number | undefined;
  /** The current height of the terminal, or undefined if it is not a terminal. */
  readonly rows: number | undefined;
  /** False once the reader has closed the stream, or the parent of this process has ended. */
  readonly isOpen: boolean;
  /** Never throws. Does nothing once the reader has closed the stream. */
  write(text: string): void;
  /**
   * Keeps a line at the bottom of the terminal while other text scrolls above it; undefined removes the line. The line
   * must be printable and without colors. Does nothing without a terminal.
   */
  pin(line: string | undefined): void;
}

export interface ConfigCheck {
  readonly path: string;
  /** Settings that are allowed, but weaken a guarantee. */
  readonly warnings: readonly string[];
}

/**
 * The location of the files that a configuration refers to: on this gateway, in an image that is being built, or `none`
 * to skip them.
 */
export type CheckLocation =
  | { readonly kind: 'gateway' }
  | { readonly kind: 'image'; readonly root: string }
  | { readonly kind: 'none'; readonly root?: string | undefined };

/** The reason for not using a daemon: `false` if none is running, `unresponsive` if it is not responding. */
export type DaemonAbsence = Exclude<DaemonStatus, true>;

/** Asks the user questions. */
export interface Prompter extends Disposable {
  /** Resolves with the answer, or undefined at the end of the input. */
  ask(question: string, signal: AbortSignal): Promise<string | undefined>;
}

export type ConfigSetup = Pick<Setup, keyof Setup>;

/** A detected sensor and its table `[[sensors]]` for the configuration, or undefined if it cannot be configured. */
export interface FoundSensor extends Omit<ScanCandidate, 'sensor'> {
  readonly toml: string | undefined;
}

export interface ScanReport {
  readonly found: readonly FoundSensor[];
  /** True if more was found than is listed. */
  readonly isCut: boolean;
}

/** The parts of a support bundle that are not replies of the agent. */
export interface Support {
  /** The default directory if the configuration cannot be read. */
  readonly stateDirectory: string;
  /** The secrets that the support bundle must not contain. */
  readonly secrets: readonly string[];
  /** The names by which the kernel's log refers to the configured devices. Throws ConfigError. */
  kernelNames(): Promise<readonly string[]>;
  /** The configuration as TOML, without secrets. Throws ConfigError. */
  configuration(): Promise<string>;
  /** The boot environment as the agent and the bootloader read it. Throws AgentError. */
  bootEnvironment(signal: AbortSignal): Promise<unknown>;
  /** Returns the slot whose device contains this file, or is this file, or undefined. */
  slotUnder(file: string): Promise<string | undefined>;
}

/** The dependencies of the commands; main.ts creates them. */
export interface CliContext {
  readonly out: TextOutput;
  readonly err: TextOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /**
   * The working directory at the program's start, to which FILE operands are relative, or undefined if it was removed.
   */
  readonly directory: string | undefined;
  readonly clock: Clock;
  readonly localOffset: OffsetMinutes;
  /** Aborted with an InterruptedError at Ctrl-C. */
  readonly signal: AbortSignal;
  readonly guard: Interruptible['guard'];
  /** True if standard input and standard error are a terminal. */
  readonly isInteractive: boolean;
  /** True if --config names the configuration file. */
  readonly isConfigNamed: boolean;
  person(): Prompter;
  /** Resolves with the running daemon, or undefined if none is running. Throws `daemon-unresponsive`. */
  connect(signal: AbortSignal): Promise<AgentOperations | undefined>;
  /**
   * Opens a read-only agent in this process. Never refused, even while another process holds the lock. `problem`: the
   * error of an invalid configuration, whose valid part is used.
   */
  readOnly(
    daemon: DaemonAbsence,
    signal: AbortSignal,
    problem?: AgentError,
  ): Promise<AgentOperations & AsyncDisposable>;
  /** Opens an agent in this process that can run every operation and holds the lock. */
  local(signal: AbortSignal): Promise<AgentOperations & AsyncDisposable>;
  /** Opens an operand. Throws `file-unreadable`. */
  openFile(path: string): Promise<OpenedFile>;
  /** Inspects a file as far as that is possible without a configuration. */
  inspect(named: InputOf<'inspect'>, signal: AbortSignal): Promise<FileReport>;
  /** Runs the daemon; resolves with the exit code when it has stopped. */
  runDaemon(): Promise<number>;
  /** Returns the catalog entry of a code, or undefined if there is no such code. */
  explain(code: string): Promise<ErrorMeaning | CodeMeaning | undefined>;
  errorCodes(): Promise<readonly string[]>;
  writeTrustList(path: string, order: ListOrder): Promise<Pick<TrustListFile, 'number' | 'keys' | 'revoked'>>;
  /** Writes a delta artifact. Throws AgentError. */
  writeDelta(order: DeltaOrder, signal: AbortSignal): Promise<WrittenDelta>;
  /**
   * Detects the values that a configuration needs. `from` is a file with a partial configuration. Throws ConfigError.
   */
  setup(from: string | undefined): Promise<ConfigSetup>;
  /** Finds sensors; changes nothing. Calls `onAsked` after each probed Modbus unit. Throws AgentError. */
  scan(order: ScanOrder, onAsked: OnProbe, signal: AbortSignal): Promise<ScanReport>;
  /** Never fails, whatever the configuration contains. */
  support(): Promise<Support>;
  readonly config: {
    /** Throws ConfigError. */
    check(around: CheckLocation): Promise<ConfigCheck>;
    /** Returns the configuration with its defaults, secrets hidden, as text and as a value. */
    show(): Promise<{ readonly text: string; readonly value: unknown }>;
    schema(): Promise<unknown>;
  };
}
