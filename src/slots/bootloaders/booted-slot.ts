import { describeError, systemErrorCode, valueOrUndefined } from '../../system/errors.ts';
import type { SlotName } from '../../update/ports.ts';
import { slotNamed } from './boot-environment.ts';
import type { BootNames } from './boot-environment.ts';
import { BootloaderError, onFile } from './errors.ts';

/** One source's statement about the running slot. */
export type SlotHint =
  | { readonly source: string; readonly slot: SlotName }
  | {
      readonly source: string;
      readonly slot: undefined;
      readonly why: string;
      /** Set if the source itself is broken. Omitted if it works without knowing the slot. */
      readonly broken?: BootloaderError | undefined;
    };

export type SlotDetector = (signal: AbortSignal) => Promise<SlotHint>;

/** The running slot, on which all sources that know one must agree. A broken one is the cause where none knows. */
export async function resolveBootedSlot(sources: readonly SlotDetector[], signal: AbortSignal): Promise<SlotName> {
  const known: { source: string; slot: SlotName }[] = [];
  const unknown: Extract<SlotHint, { slot: undefined }>[] = [];
  for (const ask of sources) {
    const clue = await ask(signal);
    if (clue.slot === undefined) unknown.push(clue);
    else known.push(clue);
  }
  const [first] = known;
  if (first === undefined) throw bootedSlotUnknown(unknown);
  const other = known.find(({ slot }) => slot !== first.slot);
  if (other === undefined) return first.slot;
  throw new BootloaderError(
    'booted-slot-contradiction',
    `${first.source} reports slot ${first.slot} as running, ${other.source} reports slot ${other.slot}`,
    { advice: 'check the boot script, [targets] slots, and the slots’ kernel command lines' },
  );
}

function bootedSlotUnknown(clues: readonly Extract<SlotHint, { slot: undefined }>[]): BootloaderError {
  const broken = clues.find((clue) => clue.broken !== undefined);
  const others = clues.filter((clue) => clue !== broken).map(({ source, why }) => `${source}: ${why}`);
  const told = `cannot tell which slot runs (${others.join('; ')})`;
  if (broken?.broken === undefined)
    return new BootloaderError('booted-slot-unknown', told, {
      advice: 'put thing.slot=A or thing.slot=B on the kernel command line of each slot',
    });
  const { code, message, advice } = broken.broken;
  return new BootloaderError(code, `${message}; without it the agent ${told}`, { advice, cause: broken.broken });
}

export interface ReadFs {
  readFile(path: string): Promise<Buffer>;
  realpath(path: string): Promise<string>;
}

export interface CommandLineDeps {
  /** /proc/cmdline. */
  readonly path: string;
  readonly names: BootNames;
  /** The devices of the slots. */
  readonly slots: Readonly<Record<SlotName, string>>;
  readonly fs: ReadFs;
}

/**
 * Finds the slot in `thing.slot=` or `rauc.slot=` on the kernel command line. The name of anything else (a rescue
 * system) is an error.
 */
export function slotNamedOnCommandLine(key: 'thing.slot' | 'rauc.slot', deps: CommandLineDeps): SlotDetector {
  const source = `${key}= on the kernel command line`;
  return async (signal) => {
    signal.throwIfAborted();
    const value = lastArgument(await commandLine(deps), key);
    if (value === undefined) return { source, slot: undefined, why: 'is not there' };
    const slot = slotNamed(value, deps.names);
    if (slot !== undefined) return { source, slot };
    throw new BootloaderError('booted-slot-unknown', `${source} names ${value.slice(0, 40)}, which is not a slot`, {
      advice: 'a rescue system cannot be updated; boot slot A or B',
    });
  };
}

/**
 * The slot whose device is `root=` on the kernel command line. `UUID=` and `LABEL=` prove nothing, since both slots may
 * hold the same image.
 */
export function slotOfRootArgument(deps: CommandLineDeps): SlotDetector {
  const { slots, fs } = deps;
  const source = 'root= on the kernel command line';
  return async (signal) => {
    signal.throwIfAborted();
    const value = lastArgument(await commandLine(deps), 'root');
    const device = value === undefined ? undefined : await resolve(devicePath(value), fs);
    if (device === undefined) return { source, slot: undefined, why: 'names no device that tells the slots apart' };
    for (const slot of ['A', 'B'] as const) {
      if (device === (await resolve(slots[slot], fs))) return { source, slot };
    }
    return { source, slot: undefined, why: `${device} is not a slot` };
  };
}

function devicePath(root: string): string | undefined {
  if (root.startsWith('/dev/')) return root;
  const match = /^(PARTLABEL|PARTUUID)=(.+)$/.exec(root);
  if (match?.[1] === undefined || match[2] === undefined) return undefined;
  return match[1] === 'PARTLABEL'
    ? `/dev/disk/by-partlabel/${match[2]}`
    : `/dev/disk/by-partuuid/${match[2].toLowerCase()}`;
}

/**
 * The slot by the boot partition in the device tree: `/chosen/bootloader/partition`, 32 bits, big-endian. Source:
 * Raspberry Pi documentation, "Device trees".
 */
export function slotOfDeviceTree(
  path: string,
  partitions: Readonly<Record<SlotName, number>>,
  fs: ReadFs,
): SlotDetector {
  const source = path;
  return async (signal) => {
    signal.throwIfAborted();
    let bytes: Buffer;
    try {
      bytes = await fs.readFile(path);
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      return { source, slot: undefined, why: describeError(error) };
    }
    if (bytes.byteLength !== 4) return { source, slot: undefined, why: `${bytes.byteLength} bytes instead of 4` };
    const partition = bytes.readUInt32BE();
    if (partition === partitions.A) return { source, slot: 'A' };
    if (partition === partitions.B) return { source, slot: 'B' };
    return {
      source,
      slot: undefined,
      why: `partition ${partition} is not a slot (an old bootloader EEPROM always reports 0)`,
    };
  };
}

/** The slot that is really mounted. */
export function slotMounted(mountedSlot: (signal: AbortSignal) => Promise<SlotName | undefined>): SlotDetector {
  const source = 'the mounted root file system';
  return async (signal) => {
    const slot = await mountedSlot(signal);
    return slot === undefined ? { source, slot, why: 'is not a slot' } : { source, slot };
  };
}

/**
 * Finds the slot with the handler. `get-current` is optional: a handler that fails is a source that does not know. A
 * handler that cannot be run is broken.
 */
export function slotOfHandler(current: (signal: AbortSignal) => Promise<SlotName>): SlotDetector {
  const source = 'the handler';
  return async (signal) => {
    try {
      return { source, slot: await current(signal) };
    } catch (error) {
      if (!(error instanceof BootloaderError)) throw error;
      return { source, slot: undefined, why: error.message, broken: error.cause === undefined ? undefined : error };
    }
  };
}

async function commandLine({ path, fs }: CommandLineDeps): Promise<string> {
  const bytes = await onFile({ code: 'booted-slot-unknown', why: `cannot read ${path}` }, async () =>
    fs.readFile(path),
  );
  return bytes.toString('utf8');
}

function lastArgument(commandLine: string, key: string): string | undefined {
  const argument = commandLine
    .trim()
    .split(/\s+/)
    .findLast((word) => word.startsWith(`${key}=`));
  return argument?.slice(key.length + 1).replaceAll('"', '');
}

async function resolve(path: string | undefined, fs: ReadFs): Promise<string | undefined> {
  if (path === undefined) return undefined;
  return valueOrUndefined(fs.realpath(path));
}
