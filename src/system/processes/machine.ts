import { basename } from 'node:path';

import { describeError } from '../errors.ts';
import { readTextFile } from '../files/durable-file.ts';
import { SystemError } from '../system-errors.ts';
import { type ProgramResult, runProgram } from './child-process.ts';

export interface MachineSettings {
  readonly rebootCommand: readonly [string, ...string[]];
  /** Default: the kernel's. */
  readonly bootIdFile?: string;
}

const REBOOT_TIMEOUT_MS = 60_000;
/** The command may run for this time after the agent was asked to stop. */
const REBOOT_GRACE_MS = 5_000;

/** The machine as a whole: its boot id, and its reboot. Implements the port Machine of update/. */
export class LinuxMachine {
  readonly #rebootCommand: readonly [string, ...string[]];
  readonly #bootIdFile: string;

  constructor(settings: MachineSettings) {
    const { bootIdFile = '/proc/sys/kernel/random/boot_id' } = settings;
    this.#rebootCommand = settings.rebootCommand;
    this.#bootIdFile = bootIdFile;
  }

  /** The kernel's boot id (random(4)), which changes with every boot. Containers on one kernel share it. */
  async bootId(): Promise<string> {
    const id = (await readTextFile(this.#bootIdFile))?.trim() ?? '';
    if (id !== '') return id;
    throw new SystemError('boot-id-unknown', `${this.#bootIdFile} does not tell which boot this is`);
  }

  /**
   * Starts a reboot, and returns when the command has succeeded. The reboot may end this process before the command
   * does, so an abort gives the command a grace period. Throws `reboot-failed` or a ProgramError.
   */
  async reboot(argument: string | undefined, signal: AbortSignal): Promise<void> {
    const command = rebootCommand(this.#rebootCommand, argument);
    using late = abortedLater(signal, REBOOT_GRACE_MS);
    const result = await runProgram(command, { timeoutMs: REBOOT_TIMEOUT_MS }, late.signal);
    if (result.exitCode === 0) return;
    throw new SystemError('reboot-failed', `${command.join(' ')}: ${describeEnd(result)}`);
  }
}

/** A signal that is aborted some time after another one. Throws the reason if that one is aborted already. */
function abortedLater(signal: AbortSignal, delayMs: number): Disposable & { readonly signal: AbortSignal } {
  signal.throwIfAborted();
  const later = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    timer = setTimeout(() => later.abort(signal.reason), delayMs);
  };
  signal.addEventListener('abort', begin, { once: true });
  return {
    signal: later.signal,
    [Symbol.dispose]: () => {
      signal.removeEventListener('abort', begin);
      clearTimeout(timer);
    },
  };
}

function describeEnd({ exitCode, stderr }: ProgramResult): string {
  const end = exitCode === undefined ? 'was killed' : `exit code ${exitCode}`;
  return stderr.trim() === '' ? end : `${end}, ${describeError(stderr.trim())}`;
}

const PLACEHOLDER = '{argument}';

/**
 * The reboot command with the bootloader's argument, for example `0 tryboot`. The argument replaces `{argument}` if the
 * command contains it; else systemctl gets it as `--reboot-argument=` (systemctl(1)), and another command as its last
 * argument, as reboot(8) takes it. Without an argument, words that contain `{argument}` are left out.
 */
export function rebootCommand(
  command: readonly [string, ...string[]],
  argument: string | undefined,
): readonly [string, ...string[]] {
  const [program, ...words] = command;
  if (argument === undefined) return [program, ...words.filter((word) => !word.includes(PLACEHOLDER))];
  if (words.some((word) => word.includes(PLACEHOLDER))) {
    return [program, ...words.map((word) => word.replaceAll(PLACEHOLDER, () => argument))];
  }
  if (basename(program) === 'systemctl') return [program, ...words, `--reboot-argument=${argument}`];
  return [program, ...words, argument];
}
