import { basename } from 'node:path';

import { describeError } from '../errors.ts';
import { readTextFile } from '../files/durable-file.ts';
import { SystemError } from '../system-errors.ts';
import { type ProgramResult, runProgram } from './child-process.ts';

export interface MachineOptions {
  readonly rebootCommand: readonly [string, ...string[]];
  /** Default: the kernel's. */
  readonly bootIdFile?: string;
}

const REBOOT_TIMEOUT_MS = 60_000;
/** How long the command may go on after this process was told to end. */
const REBOOT_GRACE_MS = 5_000;

/** The machine as a whole: which boot this is, and the next one. Satisfies the port Machine of update/. */
export class LinuxMachine {
  readonly #rebootCommand: readonly [string, ...string[]];
  readonly #bootIdFile: string;

  constructor({ rebootCommand, bootIdFile = '/proc/sys/kernel/random/boot_id' }: MachineOptions) {
    this.#rebootCommand = rebootCommand;
    this.#bootIdFile = bootIdFile;
  }

  /** random(4). Changes with every boot of the kernel; containers on one kernel share it. */
  async bootId(): Promise<string> {
    const id = (await readTextFile(this.#bootIdFile))?.trim() ?? '';
    if (id !== '') return id;
    throw new SystemError('boot-id-unknown', `${this.#bootIdFile} does not tell which boot this is`);
  }

  /**
   * Starts a reboot and returns when the command has ended well. The reboot ends this process, too, perhaps before that:
   * the command is then not cut off at once. Throws `reboot-failed` or a ProgramError.
   */
  async reboot(argument: string | undefined, signal: AbortSignal): Promise<void> {
    const command = rebootCommand(this.#rebootCommand, argument);
    using late = abortedLater(signal, REBOOT_GRACE_MS);
    const result = await runProgram(command, { timeoutMs: REBOOT_TIMEOUT_MS }, late.signal);
    if (result.exitCode === 0) return;
    throw new SystemError('reboot-failed', `${command.join(' ')}: ${describeEnd(result)}`);
  }
}

/** A signal that follows another after a while. Throws the reason if that is aborted already. */
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
 * The configured command with the bootloader's argument, e.g. `0 tryboot`: in place of `{argument}`, where the command
 * has it; else to systemctl as `--reboot-argument=` (systemctl(1)); else as the last argument, as reboot(8) takes it.
 * Without an argument, what contains `{argument}` is left out.
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
