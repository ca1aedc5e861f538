import type { FileReport } from '../control/file-report.ts';
import type { DaemonSeen } from '../control/gateway-state.ts';
import type { AgentOperations } from '../control/operations.ts';
import type { OffsetMinutes } from '../control/words/time.ts';
import type { CodeMeaning, ErrorMeaning } from '../system/define-errors.ts';
import type { Clock } from '../system/time/clock.ts';

/** Where text goes. */
export interface TextOutput {
  readonly isTTY: boolean;
  /** Asked each time: a terminal changes its size. Undefined: not a terminal. */
  readonly columns: number | undefined;
  /** Never throws; after the reader went away, nothing happens. */
  write(text: string): void;
  /**
   * Keeps a line at the bottom of the terminal while other text scrolls above it; undefined takes it away. Printable
   * and without colours. Nothing where there is no terminal.
   */
  pin(line: string | undefined): void;
}

export interface ConfigCheck {
  readonly path: string;
  /** What is allowed but weakens a promise. */
  readonly warnings: readonly string[];
}

/** What a release person wants in the next list of keys and revocations; files as they were typed. */
export interface TrustListOrder {
  readonly from: string | undefined;
  readonly number: number | undefined;
  readonly keys: readonly string[];
  readonly notBefore: string | undefined;
  readonly notAfter: string | undefined;
  readonly revokedKeys: readonly string[];
  readonly revokedReleases: readonly string[];
}

export interface WrittenTrustList {
  readonly number: number;
  readonly keys: readonly { readonly name: string }[];
  readonly revoked: { readonly keys: readonly string[]; readonly releases: readonly string[] };
}

/** What a release person wants of a delta; files as they are found from anywhere. */
export interface DeltaOrder {
  readonly base: string;
  readonly result: string;
  readonly name: string;
  readonly deviceType: string;
  readonly target: string | undefined;
  readonly securityVersion: string | undefined;
  readonly key: string | undefined;
  readonly output: string;
}

export interface WrittenDelta {
  readonly path: string;
  readonly deltaBytes: number;
  readonly base: { readonly sizeBytes: number; readonly digest: string };
  readonly result: { readonly sizeBytes: number; readonly digest: string };
}

/** Where what a configuration names is looked for: here, in an image that is being built, or nowhere. */
export type CheckPlace =
  | { readonly kind: 'gateway' }
  | { readonly kind: 'image'; readonly root: string }
  | { readonly kind: 'none' };

/** Why no daemon is asked: none runs, or it does not answer. */
export type Absent = Exclude<DaemonSeen, true>;

/** Who is asked. */
export interface Person extends Disposable {
  /** Undefined: nobody answers any more. */
  ask(question: string, signal: AbortSignal): Promise<string | undefined>;
}

export interface SetupQuestion {
  readonly name: string;
  readonly key: string;
  readonly text: string;
  /** What holds if nothing is answered; undefined: it must be said. */
  readonly found: string | undefined;
}

/** The way to a configuration; answers are by the names of their questions. */
export interface ConfigSetup {
  readonly path: string;
  questionsLeft(answers: Readonly<Record<string, string>>): readonly SetupQuestion[];
  /** What is wrong with the answer; undefined: nothing that can be told yet. */
  complaint(question: SetupQuestion, answers: Readonly<Record<string, string>>): Promise<string | undefined>;
  text(answers: Readonly<Record<string, string>>): string;
  /** Throws ConfigError where it cannot be used on this gateway; then nothing has changed. */
  write(text: string): Promise<{ readonly path: string; readonly before: string | undefined }>;
}

/** Where to look for sensors: at what the kernel shows, or at the units of a Modbus line that a person names. */
export type ScanOrder =
  | { readonly kind: 'hwmon' | 'iio' | 'w1' | 'serial' }
  | { readonly kind: 'modbus-tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'modbus-rtu'; readonly port: string; readonly baud: number; readonly parity: 'none' | 'even' };

export interface ScanReport {
  readonly found: readonly {
    readonly title: string;
    readonly reading: string | undefined;
    readonly unit: string | undefined;
    readonly problem: 'same-name' | 'odd-name' | 'unreadable' | 'console' | 'any-unit' | undefined;
    /** A table `[[sensors]]`; undefined: it cannot be configured. */
    readonly toml: string | undefined;
  }[];
  /** There is more than this. */
  readonly isCut: boolean;
}

/** What a report for a supporter is made of, beside what the agent answers. */
export interface Support {
  /** Its default, where the configuration cannot be read. */
  readonly stateDirectory: string;
  /** What this program knows of what it must not tell. */
  readonly secrets: readonly string[];
  /** By which the kernel tells of the configured devices. Throws ConfigError. */
  kernelNames(): Promise<readonly string[]>;
  /** As TOML, without what may be secret. Throws ConfigError. */
  configuration(): Promise<string>;
  /** As the agent and the bootloader itself read it. Throws AgentError. */
  bootEnvironment(signal: AbortSignal): Promise<string>;
  /** The slot that this file is, or lies on; undefined: none. */
  slotUnder(file: string): Promise<string | undefined>;
}

/** What the commands need of the world; main.ts makes it. */
export interface CliContext {
  readonly out: TextOutput;
  readonly err: TextOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** Of the program's start; a FILE is looked for from here. */
  readonly directory: string;
  readonly clock: Clock;
  readonly localOffset: OffsetMinutes;
  /** Aborted with an Interruption when a person presses Ctrl-C. */
  readonly signal: AbortSignal;
  /** Asked at Ctrl-C, until it is disposed: true, if the person was asked instead whether that is meant. */
  guard(asksInstead: () => boolean): Disposable;
  person(): Person;
  /** The running daemon; undefined: there is none. Throws `daemon-silent`. */
  connect(signal: AbortSignal): Promise<AgentOperations | undefined>;
  /** What a look needs, in this process: never refused, whoever is at work. */
  look(daemon: Absent, signal: AbortSignal): Promise<AgentOperations & AsyncDisposable>;
  /** The same in this process, under the lock. */
  local(signal: AbortSignal): Promise<AgentOperations & AsyncDisposable>;
  /** What a file is, as far as that can be told without a configuration. */
  inspect(path: string, signal: AbortSignal): Promise<FileReport>;
  /** Resolves with the exit code when the daemon has stopped. */
  runDaemon(): Promise<number>;
  /** The same of the helper. */
  runHelper(): Promise<number>;
  /** What the catalogue says of an error code; undefined: there is no such code. */
  explain(code: string): Promise<ErrorMeaning | CodeMeaning | undefined>;
  /** All there are. */
  errorCodes(): Promise<readonly string[]>;
  /** Writes a list of keys and revocations. */
  writeTrustList(path: string, order: TrustListOrder): Promise<WrittenTrustList>;
  /** Writes an artifact that holds a delta. Throws AgentError. */
  writeDelta(order: DeltaOrder, signal: AbortSignal): Promise<WrittenDelta>;
  /** Looks around; `from`: a file with a part of a configuration. Throws ConfigError. */
  setup(from: string | undefined): Promise<ConfigSetup>;
  /** Looks for sensors, and changes nothing; tells of each unit that was asked. Throws AgentError. */
  scan(order: ScanOrder, onAsked: (unit: number, answering: number) => void, signal: AbortSignal): Promise<ScanReport>;
  /** Never fails, whatever the configuration is. */
  support(): Promise<Support>;
  readonly config: {
    /** Throws ConfigError. */
    check(around: CheckPlace): Promise<ConfigCheck>;
    /** The configuration with its defaults, secrets hidden: as a person reads it, and as a value. */
    show(): Promise<{ readonly text: string; readonly value: unknown }>;
    schema(): Promise<unknown>;
  };
}
