import type * as realFs from 'node:fs/promises';
import { dirname } from 'node:path';

import type { BootNames } from '../../config/config.ts';
import { syncDirectory } from '../../system/durable-file.ts';
import type { DurableFs } from '../../system/durable-file.ts';
import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import type { SlotName } from '../../update/ports.ts';
import type { BootPrograms } from './boot-programs.ts';
import { BootloaderError } from './errors.ts';
import { parseVariables, VariableReader } from './variable-environment.ts';
import type { OrderSpelling, Variables, VariableStore } from './variable-environment.ts';

export const GRUB_TITLE = 'GRUB environment';

const ADVICE_CREATE =
  'make it with grub-editenv FILE create, and put the grub.cfg of src/slots/bootloaders/README.md on the gateway';
/** GRUB manual, "The GRUB environment block": preallocated, 1024 bytes. */
const BLOCK_BYTES = 1024;

/**
 * RAUC's variables (RAUC documentation, "Integration", section GRUB): `ORDER=A B`, `A_OK=1`, `A_TRY=0`. RAUC's TRY is a
 * flag; here it counts the attempts that were used up, and `ATTEMPTS` tells grub.cfg how many there are. With one
 * attempt both are the same, and RAUC's own grub.conf works.
 */
export function grubSpelling(attempts: number, names: BootNames): OrderSpelling {
  return {
    parse: (variables) => {
      const reader = new VariableReader(GRUB_TITLE, ADVICE_CREATE, variables);
      const left = (slot: SlotName): number => {
        const ok = reader.number(`${names[slot]}_OK`, /^[01]$/, 10, '0 or 1');
        const used = reader.number(`${names[slot]}_TRY`, /^\d{1,3}$/, 10, 'a number of boot attempts');
        return ok === 1 ? Math.max(0, attempts - used) : -1;
      };
      const all = { A: left('A'), B: left('B') };
      const order = reader.order('ORDER', names).filter((slot) => all[slot] >= 0);
      if (order.length === 0) reader.fail('no slot in ORDER is marked OK');
      return { order, attemptsLeft: { A: order.includes('A') ? all.A : 0, B: order.includes('B') ? all.B : 0 } };
    },
    format: ({ order, attemptsLeft }) => {
      const variables = new Map([
        ['ORDER', order.map((slot) => names[slot]).join(' ')],
        ['ATTEMPTS', String(attempts)],
      ]);
      for (const slot of ['A', 'B'] as const) {
        const bootable = order.includes(slot);
        variables.set(`${names[slot]}_OK`, bootable ? '1' : '0');
        variables.set(`${names[slot]}_TRY`, bootable ? String(attempts - attemptsLeft[slot]) : '0');
      }
      return variables;
    },
  };
}

export type GrubFs = DurableFs & Pick<typeof realFs, 'realpath'>;

export interface GrubEnvironmentFileParts {
  readonly programs: BootPrograms;
  readonly fs: GrubFs;
  readonly path: string;
}

/**
 * The environment block through `grub-editenv`, which writes in place: a power cut would leave a torn block. So a copy
 * beside it is edited, made durable, and renamed over it. GRUB's load_env and save_env look the file up by its path at
 * each boot, so it may be another file each time.
 */
export class GrubEnvironmentFile implements VariableStore {
  readonly #parts: GrubEnvironmentFileParts;

  constructor(parts: GrubEnvironmentFileParts) {
    this.#parts = parts;
  }

  async read(signal: AbortSignal): Promise<Variables> {
    const path = await this.#path();
    await this.#block(path); // grub-editenv would create a missing file
    const command = ['grub-editenv', path, 'list'] as const;
    const code = 'boot-environment-unreadable';
    const { stdout } = await this.#parts.programs.read({ command, code, advice: ADVICE_CREATE }, signal);
    return parseVariables(stdout);
  }

  async set(variables: Variables, signal: AbortSignal): Promise<void> {
    const path = await this.#path();
    const draft = `${path}.new`;
    const assignments = [...variables].map(([name, value]) => `${name}=${value}`);
    const code = 'boot-environment-unwritable';
    const advice = `check that the file system of ${path} is mounted read-write and has room`;
    const block = await this.#block(path);
    try {
      await this.#writeDraft(draft, block);
      const command = ['grub-editenv', draft, 'set', ...assignments] as const;
      await this.#parts.programs.write({ command, code, advice }, signal);
      await this.#replace(path, draft);
    } catch (error) {
      if (error instanceof AgentError || systemErrorCode(error) === undefined) throw error;
      const why = `${GRUB_TITLE}: cannot write ${path}: ${describeError(error)}`;
      throw new BootloaderError(code, why, { advice, cause: error });
    }
  }

  async #writeDraft(draft: string, block: Buffer): Promise<void> {
    await using file = await this.#parts.fs.open(draft, 'w', 0o644);
    await file.writeFile(block);
  }

  async #replace(path: string, draft: string): Promise<void> {
    const { fs } = this.#parts;
    {
      await using file = await fs.open(draft, 'r');
      await file.sync();
    }
    await fs.rename(draft, path);
    await syncDirectory(dirname(path), fs);
  }

  /** Some distributions make it a symbolic link, which a rename must not replace. */
  async #path(): Promise<string> {
    try {
      return await this.#parts.fs.realpath(this.#parts.path);
    } catch (error) {
      throw this.#unreadable(error);
    }
  }

  async #block(path: string): Promise<Buffer> {
    let block: Buffer;
    try {
      block = await this.#parts.fs.readFile(path);
    } catch (error) {
      throw this.#unreadable(error);
    }
    if (block.byteLength === BLOCK_BYTES) return block;
    const why = `${GRUB_TITLE}: ${path} has ${block.byteLength} bytes instead of ${BLOCK_BYTES}`;
    throw new BootloaderError('boot-environment-unreadable', why, { advice: ADVICE_CREATE });
  }

  #unreadable(error: unknown): unknown {
    if (systemErrorCode(error) === undefined) return error;
    const why = `${GRUB_TITLE}: cannot read ${this.#parts.path}: ${describeError(error)}`;
    return new BootloaderError('boot-environment-unreadable', why, { advice: ADVICE_CREATE, cause: error });
  }
}
