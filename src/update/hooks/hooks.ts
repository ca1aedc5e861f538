import * as z from 'zod';

import { AgentError, valueOrError } from '../../system/errors.ts';
import { cutText, maskAddresses } from '../../system/log/secrets.ts';
import type { ProgramResult, runProgram } from '../../system/processes/child-process.ts';
import type { Clock } from '../../system/time/clock.ts';
import { UpdateError } from '../errors.ts';
import { ownVersion } from '../journal/naming.ts';
import type { PendingHook, UpdateState, Attempt } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';

export interface HookProgram {
  readonly command: readonly [string, ...string[]];
  readonly user: string | undefined;
  readonly timeoutMs: number;
}

export type HookPrograms = Readonly<Partial<Record<HookName, HookProgram | undefined>>>;

export interface HookPorts {
  readonly run: typeof runProgram;
  readonly clock: Pick<Clock, 'monotonicMs'>;
}

/** A hook that deferred. */
export interface HookPause {
  readonly hook: HookName;
  /** See `keyOf`. */
  readonly firmware: string;
  readonly reason: string;
  readonly leftMs: number;
}

/**
 * Resolves if the hook consents. Throws `hook-rejected` if it rejects, and `hook-deferred` if it defers or cannot be
 * called.
 */
export type ConsentHook = (hook: HookName, about: HookSubject, signal: AbortSignal) => Promise<void>;

/** Returns why the program failed, if it did; a failure has no consequences. */
export type NotifyHook = (
  owed: PendingHook,
  installed: HookSubject['installed'],
  signal: AbortSignal,
) => Promise<string | undefined>;

interface Refusals extends Omit<HookPause, 'leftMs'> {
  readonly count: number;
  readonly atMs: number;
}

/** sysexits(3): EX_TEMPFAIL. */
const NOT_NOW = 75;
const MAX_OUTPUT_BYTES = 64 * 1024;
const MAX_WORDS = 300;
const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 60 * 60_000;

/** The part of Hooks that an update uses. */
export type HookPort = Pick<Hooks, 'ask' | 'askInTurn' | 'pause' | 'wants' | 'tell' | 'trouble'>;

/** Runs programs of the integrator, which give their consent or are notified of the end of an attempt. */
export class Hooks {
  readonly #programs: HookPrograms;
  readonly #ports: HookPorts;
  /** Number of deferrals in a row. A restart resets it, after which the hook is called again. */
  #refusals: Refusals | undefined;
  #trouble: string | undefined;
  /** The last attempt of which a program was notified. */
  #told: string | undefined;

  constructor(programs: HookPrograms, ports: HookPorts) {
    this.#programs = programs;
    this.#ports = ports;
  }

  /** Runs the hook immediately, since an operator waits. */
  readonly ask: ConsentHook = async (hook, about, signal) => {
    const program = this.#programs[hook];
    if (program === undefined) return;
    const firmware = keyOf(about);
    const count = this.#isRefused(hook, firmware) ? (this.#refusals?.count ?? 0) + 1 : 1;
    this.#refusals = undefined;
    const result = await valueOrError(this.#run(hook, program, about, signal));
    const reason = reasonToWait(hook, result);
    if (reason === undefined) return;
    this.#refusals = { hook, firmware, count, reason, atMs: this.#ports.clock.monotonicMs() };
    throw new UpdateError('hook-deferred', reason);
  };

  /** Runs the hook for the schedule: after a deferral only when its pause is over. */
  readonly askInTurn: ConsentHook = async (hook, about, signal) => {
    const { pause } = this;
    if (pause !== undefined && this.#isRefused(hook, keyOf(about)))
      throw new UpdateError('hook-deferred', pause.reason);
    await this.ask(hook, about, signal);
  };

  readonly wants = (hook: HookName): boolean => this.#programs[hook] !== undefined;

  readonly tell: NotifyHook = async (owed, installed, signal) => {
    const { hook, attempt: id, by, version, slot, code, reason } = owed;
    const program = this.#programs[hook];
    if (program === undefined) return undefined;
    if (this.#told === id) return this.#trouble; // it was notified, but the journal could not record that
    const about = { attempt: { id, by, version }, slot, installed, code, reason };
    const failed = `${hook} of ${version.name} failed`;
    const result = await valueOrError(this.#run(hook, program, about, signal));
    if (result instanceof AgentError) this.#trouble = `${failed}: ${result.message}`;
    else if (result.exitCode === 0) this.#trouble = undefined;
    else this.#trouble = `${failed} (${describeEnd(result.exitCode)})${wordsOf(result.stderr)}`;
    this.#told = id;
    return this.#trouble;
  };

  /** The failure of the last notified program, if it failed. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** The time until a hook is called again, if one waits. */
  get pause(): HookPause | undefined {
    if (this.#refusals === undefined) return undefined;
    const { hook, firmware, reason, count, atMs } = this.#refusals;
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (count - 1), LONGEST_PAUSE_MS);
    const leftMs = pauseMs - (this.#ports.clock.monotonicMs() - atMs);
    return leftMs > 0 ? { hook, firmware, reason, leftMs } : undefined;
  }

  #isRefused(hook: HookName, firmware: string): boolean {
    return this.#refusals?.hook === hook && this.#refusals.firmware === firmware;
  }

  async #run(hook: HookName, program: HookProgram, about: HookSubject, signal: AbortSignal): Promise<ProgramResult> {
    const { command, user, timeoutMs } = program;
    const options = { timeoutMs, user, maxOutputBytes: MAX_OUTPUT_BYTES, input: hookText(hook, about) };
    return this.#ports.run(command, options, signal);
  }
}

/** The pause that still matters. Undefined, too, if the subject of the hook was cancelled and no longer waits. */
export function standingPause(pause: HookPause | undefined, { phase }: UpdateState): HookPause | undefined {
  if (pause?.hook !== 'before_reboot') return pause;
  const waits = phase.kind === 'staged' || phase.kind === 'trial';
  return waits && keyOf({ ...phase, digest: phase.firmware.digest }) === pause.firmware ? pause : undefined;
}

/** Returns the reason for a later call of the hook, or undefined if it consents. Throws `hook-rejected`. */
function reasonToWait(hook: HookName, result: ProgramResult | AgentError): string | undefined {
  if (result instanceof AgentError) return `${hook} could not run: ${result.message}`;
  const { exitCode, stderr } = result;
  if (exitCode === 0) return undefined;
  const words = wordsOf(stderr);
  if (exitCode === NOT_NOW) return `${hook} defers${words}`;
  if (exitCode === undefined) return `${hook} was ended ${describeEnd(exitCode)}${words}`;
  throw new UpdateError('hook-rejected', `${hook} rejects (${describeEnd(exitCode)})${words}`);
}

function describeEnd(exitCode: number | undefined): string {
  return exitCode === undefined ? 'by a signal' : `exit code ${exitCode}`;
}

/** A program's words on one line, bounded, and without passwords in addresses. */
function wordsOf(text: string): string {
  const words = cutText(maskAddresses(text.replaceAll(/\s+/g, ' ').trim()), MAX_WORDS);
  return words === '' ? '' : `: ${words}`;
}

/** Returns the digest if it is known, since the service may offer the same content under any id. */
function keyOf({ digest, attempt: { version } }: Pick<HookSubject, 'attempt' | 'digest'>): string {
  return digest ?? version.id ?? version.name;
}

export const hookNames = ['before_install', 'before_reboot', 'after_commit', 'after_rollback'] as const;
export type HookName = (typeof hookNames)[number];

const version = z.object({
  /** The id at the service; a file has none. */
  id: z.string().optional(),
  name: z.string(),
});

/** The standard input of a hook: one line of JSON. Members may be added without changing `format`. */
export const hookInput = z.object({
  format: z.literal(1),
  hook: z.enum(hookNames),
  /** The same in all hooks and reports of one attempt. */
  attempt: z.string(),
  by: z.enum(['service', 'file', 'rollback']),
  version,
  /** The installed version; absent: this agent has installed nothing yet. */
  installed: version.optional(),
  /** The slot in which the version is, or will be. */
  slot: z.enum(['A', 'B']),
  /** With `after_rollback`: why it was left. The code is stable. */
  code: z.string().optional(),
  reason: z.string().optional(),
});
export type HookInput = z.infer<typeof hookInput>;

/** The subject of a hook. */
export interface HookSubject {
  readonly attempt: Pick<Attempt, 'id' | 'by' | 'version'>;
  readonly slot: SlotName;
  /** Omitted before the header of a new release was read. */
  readonly digest?: string | undefined;
  readonly installed: UpdateState['installed'];
  readonly code?: string | undefined;
  readonly reason?: string | undefined;
}

export function hookText(hook: HookName, { attempt, installed, digest: _, ...about }: HookSubject): string {
  const { id, by, version: named } = attempt;
  const input: HookInput = {
    format: 1,
    hook,
    attempt: id,
    by,
    version: named,
    installed: installed && ownVersion(installed),
    ...about,
  };
  return `${JSON.stringify(hookInput.parse(input))}\n`;
}
