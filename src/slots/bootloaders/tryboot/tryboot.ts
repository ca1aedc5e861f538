import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';

import { overwriteDurably, replaceFileDurably } from '../../../system/files/durable-file.ts';
import type { DurableFs } from '../../../system/files/durable-file.ts';
import type { SlotName } from '../../../update/ports.ts';
import { otherSlot } from '../boot-environment.ts';
import type { BootChange, BootEnvironment, SlotBootStates } from '../boot-environment.ts';
import { slotOfDeviceTree } from '../booted-slot.ts';
import type { LoadedBootloader } from '../bootloader-kind.ts';
import type { trybootSettings } from '../bootloaders.ts';
import { BootloaderError, notConfirmed, onFile } from '../errors.ts';
import { mountOf, refuseReadOnly } from '../grub/grub-reader.ts';
import { notPersistedError, readFromMedium } from '../on-medium.ts';
import { exitReasonIn, MAX_AUTOBOOT_BYTES, parseAutoboot, withExitReason, withPartitions } from './autoboot-text.ts';
import type { ExitReason } from './autoboot-text.ts';

/** The content of autoboot.txt in terms of slots. */
export interface TrybootState {
  readonly text: string;
  /** The slot that boots by default, any number of times. */
  readonly standing: SlotName;
  /** The slot that boots once, and only after `reboot "0 tryboot"`. */
  readonly tried: SlotName;
  /** True if a trial chooses a partition (`tryboot_a_b=1`). */
  readonly partitionsAreTried: boolean;
  readonly lastWord: ExitReason | undefined;
}

export interface AutobootFileDeps {
  readonly fs: DurableFs;
  readonly path: string;
  /** The numbers of the boot partitions. */
  readonly partitions: Readonly<Record<SlotName, number>>;
}

/**
 * The Raspberry Pi's own A/B boot. Its bootloader forgets a trial on its own, so that nothing is counted and a boot
 * writes nothing. The file is on FAT, where a rename changes several sectors in no fixed order. It has at most 512
 * bytes, which fit into one sector, and is overwritten in place, with its length unchanged and with O_DSYNC. This
 * writes only that sector, which the medium takes entirely or not at all, and neither the FAT nor the size in the
 * directory. Only if the text must grow is it written to another file that is renamed; it then gets its final 512
 * bytes, padded with empty lines.
 */
export class AutobootFile implements BootEnvironment<TrybootState> {
  readonly title = 'autoboot.txt';
  readonly #deps: AutobootFileDeps;

  constructor(deps: AutobootFileDeps) {
    this.#deps = deps;
  }

  async read(signal: AbortSignal): Promise<TrybootState> {
    signal.throwIfAborted();
    const text = await this.#text();
    const { partition, trialPartition, partitionsAreTried, unknownFilter } = parseAutoboot(text);
    if (unknownFilter !== undefined) throw this.#invalid(`names a partition under [${unknownFilter}]`);
    const lastWord = exitReasonIn(text);
    return { text, standing: this.#slot(partition), tried: this.#slot(trialPartition), partitionsAreTried, lastWord };
  }

  inspect({ standing, tried, lastWord }: TrybootState): SlotBootStates {
    const describe = (slot: SlotName) => {
      if (slot === standing) return { bootable: true, detail: 'boots by default' };
      if (slot === tried) return { bootable: true, detail: 'boots once when tried' };
      return {
        bootable: false,
        detail: 'not in autoboot.txt',
        lastWord: lastWord?.slot === slot ? lastWord.code : undefined,
      };
    };
    return { primary: standing, slots: { A: describe('A'), B: describe('B') } };
  }

  onTrial({ standing }: TrybootState, booted: SlotName): boolean {
    return booted !== standing;
  }

  /** A slot that boots only when tried is not a fallback, since it may be the one on trial. */
  canDisableSlot(state: TrybootState, { slot }: BootChange): boolean {
    return state.standing === otherSlot(slot);
  }

  async change(state: TrybootState, change: BootChange, signal: AbortSignal): Promise<undefined> {
    if (this.holds(state, change) && isDeepStrictEqual(state.lastWord, changedWord(state, change))) {
      await this.#confirm();
      return undefined;
    }
    signal.throwIfAborted();
    const { standing, tried } = changed(state, change);
    const { partitions } = this.#deps;
    const text = withPartitions(state.text, partitions[standing], partitions[tried]);
    await this.#write(state.text, withExitReason(text, changedWord(state, change), Buffer.byteLength(state.text)));
    return undefined;
  }

  holds(state: TrybootState, change: BootChange): boolean {
    const wanted = changed(state, change);
    return state.partitionsAreTried && state.standing === wanted.standing && state.tried === wanted.tried;
  }

  /** Changes the last byte of the padding from line end to blank, or back. */
  async testWrite(signal: AbortSignal): Promise<void> {
    const { text } = await this.read(signal);
    const padded = /\n[\n ]$/.test(text);
    const other = text.endsWith(' ') ? '\n' : ' ';
    await this.#write(text, padded ? text.slice(0, -1) + other : padTo(text, MAX_AUTOBOOT_BYTES));
    const after = await this.#text();
    if (after !== text && after.trimEnd() === text.trimEnd()) return;
    throw notConfirmed(this.#deps.path);
  }

  /** Compares the medium with the page cache, since the firmware reads only the medium. */
  async #confirm(): Promise<void> {
    const { fs, path } = this.#deps;
    const text = await this.#text();
    const onMedium = await this.#reading(() => readFromMedium(path, MAX_AUTOBOOT_BYTES, fs));
    if (onMedium !== undefined && onMedium.toString() !== text) throw notPersistedError(this.title, path);
  }

  async #write(before: string, wanted: string): Promise<void> {
    const { fs, path } = this.#deps;
    const room = Buffer.byteLength(before);
    const size = Buffer.byteLength(wanted);
    if (size > MAX_AUTOBOOT_BYTES) throw this.#invalid(`has no room: ${size} bytes, of ${MAX_AUTOBOOT_BYTES}`);
    const advice = 'check that the boot partition is mounted read-write';
    await onFile({ code: 'boot-environment-unwritable', why: `cannot write ${path}`, advice }, async () => {
      if (size <= room) await overwriteDurably(path, Buffer.from(padTo(wanted, room)), 0, fs);
      else await replaceFileDurably(path, padTo(wanted, MAX_AUTOBOOT_BYTES), fs, 0o644);
    });
    await this.#confirm();
  }

  async #text(): Promise<string> {
    const { fs, path } = this.#deps;
    const bytes = await this.#reading(() => fs.readFile(path));
    if (bytes.byteLength > MAX_AUTOBOOT_BYTES) throw this.#invalid(`has more than ${MAX_AUTOBOOT_BYTES} bytes`);
    if (!isUtf8(bytes) || bytes.includes(0)) throw this.#invalid('is not a text');
    return bytes.toString('utf8');
  }

  async #reading<T>(read: () => Promise<T>): Promise<T> {
    const advice = 'check that the boot partition is mounted, and set autoboot in the bootloader’s settings';
    return onFile({ code: 'boot-environment-unreadable', why: `cannot read ${this.#deps.path}`, advice }, read);
  }

  #slot(partition: number | undefined): SlotName {
    const { A, B } = this.#deps.partitions;
    if (partition === A) return 'A';
    if (partition === B) return 'B';
    const what = partition === undefined ? 'names no boot_partition' : `names boot_partition ${partition}`;
    throw this.#invalid(`${what}; slot A is ${A}, slot B is ${B}`);
  }

  #invalid(why: string): BootloaderError {
    const { A, B } = this.#deps.partitions;
    return new BootloaderError('boot-environment-invalid', `${this.#deps.path} ${why}`, {
      advice: `write "[all]", "tryboot_a_b=1", "boot_partition=${A}", "[tryboot]", "boot_partition=${B}" into it, a line each`,
    });
  }
}

function changed(state: TrybootState, { kind, slot }: BootChange): { standing: SlotName; tried: SlotName } {
  const other = otherSlot(slot);
  switch (kind) {
    case 'mark-unbootable':
      return { standing: other, tried: other };
    case 'try-once':
      return { standing: other, tried: slot };
    case 'commit':
      return { standing: slot, tried: state.standing === other || state.tried === other ? other : slot };
  }
}

function changedWord({ lastWord: before }: TrybootState, { kind, slot, lastWord }: BootChange): ExitReason | undefined {
  if (kind === 'mark-unbootable' && lastWord !== undefined) return { slot, code: lastWord };
  return before?.slot === slot ? undefined : before;
}

function padTo(text: string, bytes: number): string {
  return text + '\n'.repeat(bytes - Buffer.byteLength(text));
}

export const tryboot: LoadedBootloader<typeof trybootSettings> = {
  create: ({ autoboot: path, partitions }, { fs, deviceTreePartition, over }) =>
    over(new AutobootFile({ fs, path, partitions }), {
      clues: [slotOfDeviceTree(deviceTreePartition, partitions, fs)],
      trialRebootArgument: '0 tryboot',
    }),
  inspectStorage: async ({ autoboot }, deps) => {
    const { mount } = await mountOf(autoboot, deps);
    if (mount !== undefined) refuseReadOnly(autoboot, mount);
    return {};
  },
};
