import { join } from 'node:path';

import { tool } from '../../../../fakes/machine/tool.ts';
import type { PackageMachine } from '../package-machine.ts';

const LIBRARY = '/opt/steps.so';
const STEPS = '/run/steps';
/** Exit code that a shell reports for a killed program. */
const KILLED = '137';

/** dpkg and its scripts on a machine, killed before any of the steps by which they change something (steps.c). */
export class SteppedDpkg {
  readonly #machine: PackageMachine;

  private constructor(machine: PackageMachine) {
    this.#machine = machine;
  }

  static async on(machine: PackageMachine): Promise<SteppedDpkg> {
    const source = join(import.meta.dirname, 'steps.c');
    await tool(['gcc', '-shared', '-fPIC', '-O1', '-o', join(machine.root, LIBRARY), source]);
    return new SteppedDpkg(machine);
  }

  /** Runs without a kill. Resolves with the steps, in order. */
  async steps(...args: readonly string[]): Promise<readonly string[]> {
    const { code, steps } = await this.#run('', args);
    if (code !== '0') throw new Error(`dpkg ${args.join(' ')} ended with ${code}`);
    return steps;
  }

  /**
   * Kills the program and its children before the step with this number, counted from 1, or the first step with these
   * words. Resolves with the step.
   */
  async kill(at: number | string, ...args: readonly string[]): Promise<string> {
    const { code, steps } = await this.#run(String(at), args);
    const last = steps.at(-1) ?? '';
    if (code !== KILLED) throw new Error(`dpkg ${args.join(' ')} ended with ${code}, and was not killed at ${at}`);
    return last;
  }

  async #run(killAt: string, args: readonly string[]) {
    const script = `rm -f ${STEPS}; setsid env LD_PRELOAD=${LIBRARY} STEPS=${STEPS} "KILL_AT=$KILL" dpkg "$@" >/run/dpkg.log 2>&1; echo $?`;
    const code = await this.#machine.tell('env', `KILL=${killAt}`, 'sh', '-c', script, 'sh', ...args);
    const steps = (await this.#machine.tell('cat', STEPS)).split('\n');
    return { code, steps } as const;
  }
}
