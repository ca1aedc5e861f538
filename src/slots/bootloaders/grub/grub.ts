import { valueOrUndefined } from '../../../system/errors.ts';
import { overwriteDurably } from '../../../system/files/durable-file.ts';
import type { DurableFs } from '../../../system/files/durable-file.ts';
import type { SlotName } from '../../../update/ports.ts';
import type { BootNames } from '../boot-environment.ts';
import type { RunProgram } from '../boot-programs.ts';
import type { LoadedBootloader } from '../bootloader-kind.ts';
import type { grubSettings } from '../bootloaders.ts';
import { BootloaderError, onFile } from '../errors.ts';
import type { BootloaderErrorCode } from '../errors.ts';
import { notPersistedError, readFromMedium } from '../on-medium.ts';
import { formatOrder } from '../variables/boot-order.ts';
import { formatTrialMark } from '../variables/trial-mark.ts';
import { VariableEnvironment, VariableReader } from '../variables/variable-environment.ts';
import type { OrderSpelling, Variables, VariableStore } from '../variables/variable-environment.ts';
import { BLOCK_BYTES, changedSectors, parseBlock, SECTOR_BYTES, sectorOf, withVariables } from './grub-block.ts';
import { compareWithGrub, readWithGrub } from './grub-reader.ts';

const GRUB_TITLE = 'GRUB environment';

const ADVICE_CREATE =
  'make it with grub-editenv FILE create, and put the grub.cfg of docs/bootloaders/grub.md on the gateway';
const ADVICE_ROOM =
  'take variables of others out of it (grub-editenv FILE unset NAME): all of them must lie within its first 512 bytes';
/** Names the slot on trial. RAUC has no such variable. */
const TRIAL_VARIABLE = 'TRIAL';

/**
 * RAUC's variables (RAUC documentation, "Integration", section GRUB): `ORDER=A B`, `A_OK=1`, `A_TRY=0`. RAUC's TRY is a
 * flag; here it counts the used attempts, and `ATTEMPTS` tells grub.cfg how many there are. With one attempt both are
 * the same, and RAUC's own grub.conf works.
 */
export function grubSpelling(attempts: number, names: BootNames): OrderSpelling {
  return {
    parse: (variables) => {
      const reader = new VariableReader({ title: GRUB_TITLE, advice: ADVICE_CREATE, variables });
      const left = (slot: SlotName): number => {
        const ok = reader.number(`${names[slot]}_OK`, /^[01]$/, 10, '0 or 1');
        const used = reader.number(`${names[slot]}_TRY`, /^\d{1,3}$/, 10, 'a number of boot attempts');
        return ok === 1 ? Math.max(0, attempts - used) : -1;
      };
      const all = { A: left('A'), B: left('B') };
      const { order: named, others } = reader.order(ORDER, names);
      const order = named.filter((slot) => all[slot] >= 0);
      if (order.length === 0) reader.fail('no slot in ORDER is marked OK');
      const attemptsLeft = { A: order.includes('A') ? all.A : 0, B: order.includes('B') ? all.B : 0 };
      return { order, others, attemptsLeft, trial: reader.trial(TRIAL_VARIABLE, names) };
    },
    format: (state) => {
      const { order, attemptsLeft, trial } = state;
      const variables = new Map([
        [ORDER, formatOrder(state, names)],
        ['ATTEMPTS', String(attempts)],
      ]);
      for (const slot of ['A', 'B'] as const) {
        const bootable = order.includes(slot);
        variables.set(`${names[slot]}_OK`, bootable ? '1' : '0');
        variables.set(`${names[slot]}_TRY`, bootable ? String(attempts - attemptsLeft[slot]) : '0');
      }
      if (trial !== undefined) variables.set(TRIAL_VARIABLE, formatTrialMark(trial, names));
      return variables;
    },
  };
}

/** The variable of the boot order. A block without it knows nothing about the slots. */
const ORDER = 'ORDER';
/** The suffix of the environment's copy. */
const COPY = '.copy';

export interface GrubEnvironmentDeps {
  readonly fs: DurableFs;
  readonly path: string;
  /** Runs GRUB's own reader. */
  readonly run: RunProgram;
}

interface Blocks {
  /** Omitted if the block is damaged. */
  readonly own: Buffer | undefined;
  /** Omitted without a copy. */
  readonly copy: Buffer | undefined;
  /** The one of the two blocks that GRUB uses. */
  readonly inUse: Buffer;
  readonly variables: Variables;
}

/**
 * Guarantee `grub-durable`: the environment block in its file. GRUB reads file systems without their journals: for GRUB,
 * a rename has happened only when the journal was written back, half a minute later, and until then the block of the
 * old file may hold anything. So the file keeps its place, and the one sector that changes is overwritten with O_DSYNC;
 * a power loss leaves it old or new. `grub-editenv` is not used, since it empties the file first. If there is a copy of
 * the block, it is written first, and a damaged block is repaired from it.
 */
export class GrubEnvironmentFile implements VariableStore {
  readonly #deps: GrubEnvironmentDeps;
  /** The block that GRUB was last seen to read, since this program started. */
  #confirmed: Buffer | undefined;

  constructor(deps: GrubEnvironmentDeps) {
    this.#deps = deps;
  }

  async read(signal: AbortSignal): Promise<Variables> {
    signal.throwIfAborted();
    return (await this.#blocks()).variables;
  }

  async set(variables: Variables, signal: AbortSignal): Promise<void> {
    const { inUse, own, copy } = await this.#blocks();
    const after =
      withVariables(inUse, variables) ?? this.#refuse('boot-environment-unwritable', 'is full', ADVICE_ROOM);
    if (own !== undefined && changedSectors(own, after).length > 1) {
      this.#refuse('boot-environment-unwritable', 'needs more than its first sector', ADVICE_ROOM);
    }
    signal.throwIfAborted();
    if (copy !== undefined) await this.#write(`${this.#deps.path}${COPY}`, copy, after);
    await this.#write(this.#deps.path, own, after);
  }

  async confirm(signal: AbortSignal): Promise<void> {
    const block = await this.#block();
    if (this.#confirmed?.equals(block) === true) return;
    const onMedium = await this.#reading(() => readFromMedium(this.#deps.path, BLOCK_BYTES, this.#deps.fs));
    if (onMedium !== undefined && !onMedium.equals(block)) throw notPersistedError(GRUB_TITLE, this.#deps.path);
    await compareWithGrub(this.#deps.path, block, this.#deps, signal);
    this.#confirmed = block;
  }

  async #write(path: string, before: Buffer | undefined, after: Buffer): Promise<void> {
    const why = `${GRUB_TITLE}: cannot write ${path}`;
    const advice = 'check that its file system is mounted read-write';
    await onFile({ code: 'boot-environment-unwritable', why, advice }, async () => {
      for (const sector of changedSectors(before, after))
        await overwriteDurably(path, sectorOf(after, sector), sector * SECTOR_BYTES, this.#deps.fs);
    });
  }

  async #blocks(): Promise<Blocks> {
    const own = await this.#block();
    const copy = await this.#copy();
    const variables = parseBlock(own);
    if (variables?.has(ORDER) === true) return { own, copy, inUse: own, variables };
    const kept = copy === undefined ? undefined : parseBlock(copy);
    if (copy !== undefined && kept?.has(ORDER) === true) return { own: undefined, copy, inUse: copy, variables: kept };
    if (variables !== undefined) return { own, copy, inUse: own, variables };
    const hasSize = own.byteLength === BLOCK_BYTES;
    const why = hasSize
      ? 'holds an invalid environment block'
      : `has ${own.byteLength} bytes instead of ${BLOCK_BYTES}`;
    return this.#refuse('boot-environment-unreadable', why, ADVICE_CREATE);
  }

  async #block(): Promise<Buffer> {
    return this.#reading(() => this.#deps.fs.readFile(this.#deps.path));
  }

  async #reading<T>(read: () => Promise<T>): Promise<T> {
    const why = `${GRUB_TITLE}: cannot read ${this.#deps.path}`;
    return onFile({ code: 'boot-environment-unreadable', why, advice: ADVICE_CREATE }, read);
  }

  async #copy(): Promise<Buffer | undefined> {
    const block = await valueOrUndefined(this.#deps.fs.readFile(`${this.#deps.path}${COPY}`));
    return block?.byteLength === BLOCK_BYTES ? block : undefined;
  }

  #refuse(code: BootloaderErrorCode, why: string, advice: string): never {
    throw new BootloaderError(code, `${GRUB_TITLE}: ${this.#deps.path} ${why}`, { advice });
  }
}

export const grub: LoadedBootloader<typeof grubSettings> = {
  create: ({ environment: path, attempts, names }, { fs, run, over }) => {
    const store = new GrubEnvironmentFile({ fs, path, run });
    const spelling = grubSpelling(attempts, names);
    return over(new VariableEnvironment({ title: GRUB_TITLE, store, spelling, attempts }));
  },
  inspectStorage: async ({ environment }, deps, signal) => ({ detail: await readWithGrub(environment, deps, signal) }),
};
