import { isDeepStrictEqual } from 'node:util';

import { systemErrorCode } from '../../system/errors.ts';
import { readTextFile } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Log } from '../../system/log/log.ts';
import type { BootNames } from './boot-environment.ts';
import { bootFs } from './boot-fs.ts';
import type { BootPrograms } from './boot-programs.ts';
import type { BootStorage, LoadedBootloader } from './bootloader-kind.ts';
import { DEFAULT_FW_ENV_CONFIG } from './bootloaders.ts';
import type { ubootSettings } from './bootloaders.ts';
import { BootloaderError } from './errors.ts';
import { notPersistedError } from './on-medium.ts';
import { formatOrder } from './variables/boot-order.ts';
import { formatTrialMark } from './variables/trial-mark.ts';
import { parseVariables, VariableEnvironment, VariableReader } from './variables/variable-environment.ts';
import type { OrderSpelling, Variables, VariableStore } from './variables/variable-environment.ts';

const UBOOT_TITLE = 'U-Boot environment';

/** libubootenv, `src/uboot_env.c`: LOCKFILE, for which both tools wait without end. */
const ADVICE_LOCK = 'find the program that holds the lock of the environment: fuser -v /var/lock/fw_printenv.lock';
const ADVICE_TOOLS = 'check fw_env.config, the device that it names, and that libubootenv-tool is installed';
const ADVICE_VALUES =
  'put the boot script of docs/bootloaders/uboot.md on the gateway and boot once, or repair with fw_setenv';

export interface UbootVariableNames {
  readonly orderVariable: string;
  /** Contains `{slot}`, which is replaced by the boot name. */
  readonly leftVariable: string;
  /** Names the slot on trial. */
  readonly trialVariable: string;
}

/**
 * RAUC's variables (RAUC documentation, "Integration", section U-Boot): `BOOT_ORDER=A B`, `BOOT_A_LEFT=3`. Counters are
 * hexadecimal, as U-Boot's setexpr writes them. `BOOT_TRIAL=B` is ours.
 */
export function ubootSpelling(variables: UbootVariableNames, names: BootNames): OrderSpelling {
  const { orderVariable, leftVariable, trialVariable } = variables;
  const left = { A: leftVariable.replaceAll('{slot}', names.A), B: leftVariable.replaceAll('{slot}', names.B) };
  return {
    parse: (variables) => {
      const reader = new VariableReader({ title: UBOOT_TITLE, advice: ADVICE_VALUES, variables });
      const { order, others } = reader.order(orderVariable, names);
      const attempts = (slot: 'A' | 'B') =>
        reader.number(left[slot], /^(?:0x)?[0-9a-f]{1,6}$/i, 16, 'a hexadecimal number of boot attempts');
      const [a, b] = [attempts('A'), attempts('B')];
      const attemptsLeft = { A: order.includes('A') ? a : 0, B: order.includes('B') ? b : 0 };
      return { order, others, attemptsLeft, trial: reader.trial(trialVariable, names) };
    },
    format: (state) => {
      const { attemptsLeft, trial } = state;
      return new Map([
        [orderVariable, formatOrder(state, names)],
        [left.A, attemptsLeft.A.toString(16)],
        [left.B, attemptsLeft.B.toString(16)],
        ...(trial === undefined ? [] : [[trialVariable, formatTrialMark(trial, names)] as const]),
      ]);
    },
  };
}

export interface FwToolsDeps {
  readonly programs: BootPrograms;
  readonly fs: DurableFs;
  readonly log: Log;
  /** If omitted, the default of the tools. */
  readonly configFile: string | undefined;
}

/**
 * Guarantee `u-boot`: the environment through `fw_printenv` and `fw_setenv`, either from libubootenv or from U-Boot
 * itself. One run sets all variables and writes the environment once; if there are two copies
 * (`CONFIG_SYS_REDUNDAND_ENVIRONMENT`), a power loss leaves the old or the new one. The tools lock each other out.
 */
export class FwTools implements VariableStore {
  readonly #deps: FwToolsDeps;
  #separator: '=' | ' ' | undefined;
  #copiesLookedAt = false;
  /** The environment that was last read from the medium, since this program started. */
  #confirmed: string | undefined;

  constructor(deps: FwToolsDeps) {
    this.#deps = deps;
  }

  async read(signal: AbortSignal): Promise<Variables> {
    const command = this.#command('fw_printenv');
    const code = 'boot-environment-unreadable';
    const { stdout, stderr } = await this.#deps.programs.read(
      { command, code, advice: ADVICE_TOOLS, lateAdvice: ADVICE_LOCK },
      signal,
    );
    // if the checksum is wrong, both tools use a built-in environment or a file, and end with exit code 0
    if (/using default/i.test(stderr)) {
      throw new BootloaderError(code, `${UBOOT_TITLE}: no copy of it has a valid checksum`, {
        advice: 'run saveenv in U-Boot, or write it again with fw_setenv',
      });
    }
    return parseVariables(stdout);
  }

  async set(variables: Variables, signal: AbortSignal): Promise<void> {
    await this.#warnOfSingleCopy();
    const separator = await this.#scriptSeparator(signal);
    const input = [...variables].map(([name, value]) => `${name}${separator}${value}\n`).join('');
    const command = this.#command('fw_setenv', '-s', '-');
    const advice = 'check that the device in fw_env.config can be written';
    await this.#deps.programs.write(
      { command, input, code: 'boot-environment-unwritable', advice, lateAdvice: ADVICE_LOCK },
      signal,
    );
  }

  /** Runs `fw_printenv` again, after Linux has dropped its cache of the devices. */
  async confirm(signal: AbortSignal): Promise<void> {
    const kept = await this.read(signal);
    const key = JSON.stringify([...kept]);
    if (this.#confirmed === key) return;
    const { programs, fs, configFile = DEFAULT_FW_ENV_CONFIG } = this.#deps;
    for (const device of devicesIn((await readTextFile(configFile, fs)) ?? '')) {
      await programs.probe(['dd', `if=${device}`, 'iflag=nocache', 'count=0', 'status=none'], signal);
    }
    if (!isDeepStrictEqual(await this.read(signal), kept)) throw notPersistedError(UBOOT_TITLE, configFile);
    this.#confirmed = key;
  }

  /**
   * Returns the separator of name and value in a script: `=` for libubootenv, a blank for U-Boot's own tool. U-Boot's
   * tool would take `name=value` as a name, and libubootenv ignores lines with a blank. Only libubootenv prints its
   * version as a bare number.
   */
  async #scriptSeparator(signal: AbortSignal): Promise<'=' | ' '> {
    if (this.#separator !== undefined) return this.#separator;
    const version = await this.#deps.programs.probe(['fw_setenv', '-V'], signal);
    this.#separator = /^\d+\.\d+[\d. ]*\s*$/.test(version) ? '=' : ' ';
    return this.#separator;
  }

  async #warnOfSingleCopy(): Promise<void> {
    if (this.#copiesLookedAt) return;
    this.#copiesLookedAt = true;
    const path = this.#deps.configFile ?? DEFAULT_FW_ENV_CONFIG;
    const copies = countCopies((await readTextFile(path, this.#deps.fs)) ?? '');
    if (copies === 1) {
      this.#deps.log.warn({ path }, 'the U-Boot environment has one copy: a power cut while it is written loses it');
    }
  }

  #command(tool: 'fw_printenv' | 'fw_setenv', ...args: readonly string[]): readonly [string, ...string[]] {
    const { configFile } = this.#deps;
    return configFile === undefined ? [tool, ...args] : [tool, '-c', configFile, ...args];
  }
}

function countCopies(config: string): number {
  return devicesIn(config).length;
}

/** The devices in the table form of fw_env.config: device, offset, size, … in each line. */
function devicesIn(config: string): readonly string[] {
  const line = /^[ \t]*([^#\s]\S*)[ \t]+-?(?:0x)?[0-9a-f]+[ \t]+(?:0x)?[0-9a-f]+/gim;
  return [...config.matchAll(line)].map(([, device = '']) => device);
}

async function copiesOf(path: string): Promise<BootStorage> {
  try {
    if (countCopies((await bootFs.readFile(path)).toString('utf8')) !== 1) return {};
    return { weakness: `${path} names one copy of the environment: a power cut while it is written loses it` };
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    return {}; // the tools tell the reason when they read the file
  }
}

export const uboot: LoadedBootloader<typeof ubootSettings> = {
  create: (settings, { programs, fs, log, over }) => {
    const { attempts, names } = settings;
    const store = new FwTools({ programs, fs, log, configFile: settings.fwEnvConfig });
    const spelling = ubootSpelling(settings, names);
    return over(new VariableEnvironment({ title: UBOOT_TITLE, store, spelling, attempts }));
  },
  inspectStorage: async ({ fwEnvConfig }) => copiesOf(fwEnvConfig),
};
