import type { FileReport } from '../control/file-report.ts';
import type { DaemonStatus } from '../control/gateway-state.ts';
import type { AgentOperations, InputOf } from '../control/operations.ts';
import type { OffsetMinutes } from '../control/presentation/time.ts';
import type { DeltaOrder, WrittenDelta } from '../firmware/delta/write-delta.ts';
import type { ListOrder } from '../firmware/trust/write-trust-list.ts';
import type { Setup } from '../setup/setup.ts';
import type { CodeMeaning, ErrorMeaning } from '../system/define-errors.ts';
import type { OpenedFile } from '../system/files/opened-file.ts';
import type { Clock } from '../system/time/clock.ts';
import type { ScanCandidate, OnProbe, ScanOrder } from '../telemetry/scan/scan-result.ts';

/** A place for text: standard output or standard error. */
export interface TextOutput {
  readonly isTTY: boolean;
  /** The width of the terminal now, since it may change; undefined: not a terminal. */
  readonly columns: number | undefined;
  /** Never throws. Does nothing once the reader has gone away. */
  write(text: string): void;
  /**
   * Keeps a line at the bottom of the terminal while other text scrolls above it; undefined takes the line away. The
   * line must be printable and without colours. Without a terminal this does nothing.
   */
  pin(line: string | undefined): void;
}

export interface ConfigCheck {
  readonly path: string;
  /** What is allowed, but weakens a promise. */
  readonly warnings: readonly string[];
}

export interface WrittenTrustList {
  readonly number: number;
  readonly keys: readonly { readonly name: string }[];
  readonly revoked: { readonly keys: readonly string[]; readonly releases: readonly string[] };
}

/**
 * Where the files that a configuration names are looked for: on this gateway, in an image that is being built, or
 * nowhere, be the configuration itself in an image or not.
 */
export type CheckLocation =
  | { readonly kind: 'gateway' }
  | { readonly kind: 'image'; readonly root: string }
  | { readonly kind: 'none'; readonly root?: string | undefined };

/** Why no daemon is asked: `false`: none runs; `silent`: it does not answer. */
export type DaemonAbsence = Exclude<DaemonStatus, true>;

/** The person who answers questions. */
export interface Prompter extends Disposable {
  /** The answer; undefined: nobody answers any more. */
  ask(question: string, signal: AbortSignal): Promise<string | undefined>;
}

/** The way to a configuration. */
export type ConfigSetup = Pick<Setup, keyof Setup>;

/** A sensor that was found, and its table `[[sensors]]` for the configuration; undefined: it cannot be configured. */
export interface FoundSensor extends Omit<ScanCandidate, 'sensor'> {
  readonly toml: string | undefined;
}

export interface ScanReport {
  readonly found: readonly FoundSensor[];
  /** True if more was found than is listed. */
  readonly isCut: boolean;
}

/** The parts of a report for a supporter that do not come from the agent's answers. */
export interface Support {
  /** The default directory if the configuration cannot be read. */
  readonly stateDirectory: string;
  /** The secrets that this program knows, which the report must not contain. */
  readonly secrets: readonly string[];
  /** The names by which the kernel's log refers to the configured devices. Throws ConfigError. */
  kernelNames(): Promise<readonly string[]>;
  /** The configuration as TOML, without what may be secret. Throws ConfigError. */
  configuration(): Promise<string>;
  /** The boot environment as the agent and the bootloader read it. Throws AgentError. */
  bootEnvironment(signal: AbortSignal): Promise<unknown>;
  /** The slot whose device holds this file, or is this file; undefined: none. */
  slotUnder(file: string): Promise<string | undefined>;
}

/** Everything outside of this room that the commands use; main.ts makes it. */
export interface CliContext {
  readonly out: TextOutput;
  readonly err: TextOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** The working directory at the program's start, to which FILE operands are relative; undefined: it was removed. */
  readonly directory: string | undefined;
  readonly clock: Clock;
  readonly localOffset: OffsetMinutes;
  /** Aborted with an Interruption when a person presses Ctrl-C. */
  readonly signal: AbortSignal;
  /**
   * Until it is disposed, `asksInstead` is called at Ctrl-C. It returns true if it asked the person to press again, and
   * the signal is then not aborted.
   */
  guard(asksInstead: () => boolean): Disposable;
  person(): Prompter;
  /** The running daemon; undefined: none runs. Throws `daemon-unresponsive`. */
  connect(signal: AbortSignal): Promise<AgentOperations | undefined>;
  /** An agent in this process that can only look; it is never refused, whatever else is at work. */
  look(daemon: DaemonAbsence, signal: AbortSignal): Promise<AgentOperations & AsyncDisposable>;
  /** An agent in this process that can do everything, and holds the lock. */
  local(signal: AbortSignal): Promise<AgentOperations & AsyncDisposable>;
  /** Opens a file that the operator named. Throws `file-unreadable`. */
  openFile(path: string): Promise<OpenedFile>;
  /** What a file contains, as far as that can be told without a configuration. */
  inspect(named: InputOf<'inspect'>, signal: AbortSignal): Promise<FileReport>;
  /** Runs the daemon; resolves with the exit code when it has stopped. */
  runDaemon(): Promise<number>;
  /** What the catalogue says of a code; undefined: there is no such code. */
  explain(code: string): Promise<ErrorMeaning | CodeMeaning | undefined>;
  /** All codes of the catalogue. */
  errorCodes(): Promise<readonly string[]>;
  /** Writes a list of keys and revocations. */
  writeTrustList(path: string, order: ListOrder): Promise<WrittenTrustList>;
  /** Writes an artifact that holds a delta. Throws AgentError. */
  writeDelta(order: DeltaOrder, signal: AbortSignal): Promise<WrittenDelta>;
  /** Looks for what a configuration needs. `from` is a file with a part of a configuration. Throws ConfigError. */
  setup(from: string | undefined): Promise<ConfigSetup>;
  /** Looks for sensors; changes nothing. Calls `onAsked` after each Modbus unit that was asked. Throws AgentError. */
  scan(order: ScanOrder, onAsked: OnProbe, signal: AbortSignal): Promise<ScanReport>;
  /** Never fails, whatever the configuration contains. */
  support(): Promise<Support>;
  readonly config: {
    /** Throws ConfigError. */
    check(around: CheckLocation): Promise<ConfigCheck>;
    /** The configuration with its defaults, secrets hidden: as text for a person, and as a value. */
    show(): Promise<{ readonly text: string; readonly value: unknown }>;
    schema(): Promise<unknown>;
  };
}
