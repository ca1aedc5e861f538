import { BootPrograms } from '../../../src/slots/bootloaders/boot-programs.ts';
import { Handler } from '../../../src/slots/bootloaders/custom.ts';
import { EnvironmentBootloader } from '../../../src/slots/bootloaders/environment-bootloader.ts';
import { BootloaderError } from '../../../src/slots/bootloaders/errors.ts';
import { grubSpelling } from '../../../src/slots/bootloaders/grub/grub.ts';
import { MAX_AUTOBOOT_BYTES } from '../../../src/slots/bootloaders/tryboot/autoboot-text.ts';
import { AutobootFile } from '../../../src/slots/bootloaders/tryboot/tryboot.ts';
import { ubootSpelling } from '../../../src/slots/bootloaders/uboot.ts';
import { VariableEnvironment } from '../../../src/slots/bootloaders/variables/variable-environment.ts';
import type { OrderSpelling } from '../../../src/slots/bootloaders/variables/variable-environment.ts';
import type { DurableFs } from '../../../src/system/files/durable-file.ts';
import type { Bootloader, SlotName } from '../../../src/update/ports.ts';
import { otherSlot } from '../../../src/update/slot.ts';
import type { Power } from './power.ts';

export const bootKinds = ['uboot', 'grub', 'tryboot', 'handler'] as const;
export type BootKind = (typeof bootKinds)[number];

/** The variables that one bootloader stores, by name. */
export type BootMemory = Readonly<Record<string, string>>;

/** One bootloader: how it chooses, and the project's adapter over its memory. */
interface Bootrom {
  readonly factory: BootMemory;
  /** Chooses a slot, and changes its memory as it does at a start. Nothing boots: undefined. */
  start(memory: Map<string, string>, argument: string | undefined): SlotName | undefined;
  /** The same where it cannot save what it changed: a trial that cannot be counted is not booted. */
  startUncounted(memory: ReadonlyMap<string, string>, argument: string | undefined): SlotName | undefined;
  /**
   * Every slot that it may start, now or later, with any result of the reboot command, while no agent changes the
   * environment.
   */
  bootable(memory: ReadonlyMap<string, string>): readonly SlotName[];
  adapter(machine: BootMachine): Bootloader;
}

const names = { A: 'A', B: 'B' } as const;
const slotNames = ['A', 'B'] as const;
const ATTEMPTS = 3;

/** Non-default boot environments of new gateways. */
export const deliveries = {
  /** Defaults of a boot script that does not check the slots' content: B may boot, but is empty. */
  blank: { BOOT_ORDER: 'A B', BOOT_A_LEFT: '3', BOOT_B_LEFT: '3' },
  /** A rescue system behind the slots. */
  'uboot-rescue': { BOOT_ORDER: 'A R', BOOT_A_LEFT: '3', BOOT_B_LEFT: '0' },
  'grub-rescue': { ORDER: 'A R', ATTEMPTS: '3', A_OK: '1', A_TRY: '0', B_OK: '0', B_TRY: '0' },
} as const satisfies Readonly<Record<string, BootMemory>>;
export type Delivery = keyof typeof deliveries;

export interface BootMachineParts {
  readonly kind: BootKind;
  readonly power: Power;
  readonly random: () => number;
  readonly memory?: BootMemory | undefined;
}

/** A bootloader in memory under its real adapter. A write that the power cuts has happened, or not. */
export class BootMachine {
  readonly kind: BootKind;
  readonly bootloader: Bootloader;
  booted: SlotName = 'A';
  /** Asked before each write of the agent: whether it fails. It may have been made all the same. */
  trouble: () => boolean = () => false;
  /** Asked at each start: whether the bootloader cannot save what it chose. */
  cannotSave: () => boolean = () => false;
  readonly #power: Power;
  readonly #random: () => number;
  #memory: Map<string, string>;

  constructor({ kind, power, random, memory = roms[kind].factory }: BootMachineParts) {
    this.kind = kind;
    this.#power = power;
    this.#random = random;
    this.#memory = new Map(Object.entries(memory));
    this.bootloader = roms[kind].adapter(this);
  }

  get memory(): BootMemory {
    return Object.fromEntries(this.#memory);
  }

  get bootable(): readonly SlotName[] {
    return roms[this.kind].bootable(this.#memory);
  }

  /** The slot that a power-on would start. */
  get next(): SlotName | undefined {
    return roms[this.kind].start(new Map(this.#memory), undefined);
  }

  /** Names in the boot order that are not slots. */
  get others(): readonly string[] {
    const order = this.#memory.get('BOOT_ORDER') ?? this.#memory.get('ORDER') ?? '';
    return order.split(' ').filter((word) => word !== '' && nameOf(word) === undefined);
  }

  /** The machine starts: what the bootloader writes then is whole or not there. */
  start(argument: string | undefined): SlotName {
    const before = new Map(this.#memory);
    const rom = roms[this.kind];
    const slot = this.cannotSave() ? rom.startUncounted(this.#memory, argument) : rom.start(this.#memory, argument);
    if (slot === undefined) throw new Error('no slot boots');
    this.#orNot(before, 'the bootloader chooses');
    this.booted = slot;
    return slot;
  }

  read(): ReadonlyMap<string, string> {
    this.#power.need('read the boot environment');
    return this.#memory;
  }

  write(what: string, variables: Iterable<readonly [string, string]>): void {
    this.#power.need(what);
    const before = new Map(this.#memory);
    const isInTrouble = this.trouble();
    if (!isInTrouble || this.#random() < 0.5) {
      for (const [name, value] of variables) this.#memory.set(name, value);
    }
    if (isInTrouble) throw new BootloaderError('boot-environment-unwritable', `${what}: made to fail`);
    this.#orNot(before, `boot environment: ${what}`);
  }

  #orNot(before: Map<string, string>, what: string): void {
    try {
      this.#power.step(what);
    } catch (error) {
      if (this.#random() < 0.5) this.#memory = before;
      throw error;
    }
  }

  async bootedSlot(signal: AbortSignal): Promise<SlotName> {
    signal.throwIfAborted();
    this.#power.need('ask which slot runs');
    return this.booted;
  }
}

/** U-Boot with the boot script of docs/bootloaders/uboot.md. */
const uboot: Bootrom = {
  factory: { BOOT_ORDER: 'A', BOOT_A_LEFT: '3', BOOT_B_LEFT: '0' },
  start: (memory) => {
    const order = words(memory.get('BOOT_ORDER'));
    const left = (slot: SlotName): number => Number.parseInt(memory.get(`BOOT_${slot}_LEFT`) ?? '3', 16);
    if (order.every((slot) => left(slot) === 0)) for (const slot of slotNames) memory.set(`BOOT_${slot}_LEFT`, '3');
    const found = order.find((slot) => left(slot) > 0);
    if (found !== undefined) memory.set(`BOOT_${found}_LEFT`, (left(found) - 1).toString(16));
    return found;
  },
  startUncounted: (memory, argument) => {
    const slot = uboot.start(new Map(memory), argument);
    return notOnTrial(slot, memory.get('BOOT_TRIAL'), uboot.bootable(memory));
  },
  bootable: (memory) => words(memory.get('BOOT_ORDER')),
  adapter: (machine) => {
    const variables = {
      orderVariable: 'BOOT_ORDER',
      leftVariable: 'BOOT_{slot}_LEFT',
      trialVariable: 'BOOT_TRIAL',
    };
    return ofVariables('U-Boot', ubootSpelling(variables, names), machine);
  },
};

/** GRUB with the script of the same page. */
const grub: Bootrom = {
  factory: { ORDER: 'A', ATTEMPTS: '3', A_OK: '1', A_TRY: '0', B_OK: '0', B_TRY: '0' },
  start: (memory) => {
    const usable = grub.bootable(memory);
    const attempts = Number(memory.get('ATTEMPTS') ?? '1');
    const used = (slot: SlotName): number => Number(memory.get(`${slot}_TRY`));
    let found = usable.find((slot) => used(slot) < attempts);
    if (found === undefined) {
      for (const slot of slotNames) memory.set(`${slot}_TRY`, '0');
      [found] = usable;
    }
    if (found !== undefined) memory.set(`${found}_TRY`, String(used(found) + 1));
    return found;
  },
  startUncounted: (memory, argument) => {
    const slot = grub.start(new Map(memory), argument);
    return notOnTrial(slot, memory.get('TRIAL'), grub.bootable(memory));
  },
  bootable: (memory) => words(memory.get('ORDER')).filter((slot) => memory.get(`${slot}_OK`) === '1'),
  adapter: (machine) => ofVariables('GRUB', grubSpelling(ATTEMPTS, names), machine),
};

/** As the scripts do it: the slot on trial boots only where nothing else does. */
function notOnTrial(
  slot: SlotName | undefined,
  trial: string | undefined,
  bootable: readonly SlotName[],
): SlotName | undefined {
  return slot === trial ? (bootable.find((other) => other !== slot) ?? slot) : slot;
}

const TRYBOOT_ARGUMENT = '0 tryboot';
const FILE = 'autoboot.txt';

/** Raspberry Pi: the reboot requests the trial, and anything else cancels it. */
const tryboot: Bootrom = {
  factory: {
    [FILE]: '[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=2\n'.padEnd(MAX_AUTOBOOT_BYTES, '\n'),
  },
  start: (memory, argument) => partitionOf(memory, argument === TRYBOOT_ARGUMENT),
  startUncounted: (memory, argument) => partitionOf(memory, argument === TRYBOOT_ARGUMENT), // it saves nothing
  bootable: (memory) => unique([partitionOf(memory, false), partitionOf(memory, true)]),
  adapter: (machine) => {
    const environment = new AutobootFile({ fs: bootPartition(machine), path: FILE, partitions: { A: 2, B: 3 } });
    const bootedSlot = (signal: AbortSignal): Promise<SlotName> => machine.bootedSlot(signal);
    return new EnvironmentBootloader({ environment, bootedSlot, trialRebootArgument: TRYBOOT_ARGUMENT });
  },
};

/** The last line whose filter passes wins. */
function partitionOf(memory: ReadonlyMap<string, string>, isTrial: boolean): SlotName | undefined {
  let passes = true;
  let partition = '';
  for (const line of (memory.get(FILE) ?? '').trimEnd().split('\n')) {
    if (line.startsWith('[')) passes = line === '[all]' || (line === '[tryboot]' && isTrial);
    const [key, value = ''] = line.split('=');
    if (passes && key === 'boot_partition') partition = value;
  }
  if (partition === '2') return 'A';
  return partition === '3' ? 'B' : undefined;
}

/** One file in one sector, overwritten in place. */
function bootPartition(machine: BootMachine): DurableFs {
  const api = {
    readFile: async () => Buffer.from(machine.read().get(FILE) ?? ''),
    open: async () => ({
      read: async (into: Buffer) => ({ bytesRead: into.write(machine.read().get(FILE) ?? '') }),
      write: async (sector: Buffer) => {
        machine.write('overwrite autoboot.txt', [[FILE, sector.toString()]]);
        return { bytesWritten: sector.byteLength };
      },
      [Symbol.asyncDispose]: async () => {},
    }),
  };
  return api as unknown as DurableFs;
}

/**
 * A handler of an integrator that keeps to README.md with a one-shot flag instead of counters: `set-primary` arms the
 * flag, the next start uses it up, and only `set-state good` moves what stands. `get-primary` prints what `set-primary`
 * wrote last (`echo "$2" > primary`), also during the trial and after it fell back.
 */
const handler: Bootrom = {
  factory: { standing: 'A', armed: '', primary: 'A', A: 'good', B: 'bad', word: '' },
  start: (memory) => {
    const slot = nameOf(memory.get('armed')) ?? nameOf(memory.get('standing'));
    memory.set('armed', '');
    return slot;
  },
  startUncounted: (memory) => nameOf(memory.get('standing')),
  bootable: (memory) => unique([nameOf(memory.get('armed')), nameOf(memory.get('standing'))]),
  adapter: (machine) => {
    const programs = new BootPrograms(async ([, ...args], _options, signal) => {
      signal.throwIfAborted();
      return { exitCode: 0, stdout: callHandler(machine, args), stderr: '' };
    });
    const environment = new Handler({ programs, handler: 'handler', names });
    return new EnvironmentBootloader({ environment, bootedSlot: (signal) => machine.bootedSlot(signal) });
  },
};

function callHandler(machine: BootMachine, [call = '', name = '', state = '']: readonly string[]): string {
  const memory = machine.read();
  const valueOf = (key: string): string => memory.get(key) ?? '';
  if (call === 'get-primary') return valueOf('primary');
  if (call === 'get-state') return valueOf(name);
  if (call === 'get-last-word') return valueOf('word').startsWith(`${name}:`) ? valueOf('word') : '';
  const slot = nameOf(name);
  if (slot === undefined) throw new Error(`the handler knows no ${call} ${name}`);
  machine.write(`${call} ${name} ${state}`, changesOf(memory, call, slot, state));
  return '';
}

type Changes = readonly (readonly [string, string])[];

function changesOf(memory: ReadonlyMap<string, string>, call: string, slot: SlotName, state: string): Changes {
  if (call === 'set-last-word') return [['word', state === 'none' ? '' : `${slot}:${state}`]];
  return call === 'set-primary'
    ? [
        ['armed', slot],
        ['primary', slot],
        [slot, 'bad'],
      ]
    : stateSet(memory, slot, state);
}

function stateSet(memory: ReadonlyMap<string, string>, slot: SlotName, state: string): Changes {
  const changes: (readonly [string, string])[] = [[slot, state]];
  const isPrimary = memory.get('primary') === slot;
  if (state === 'good' && isPrimary) changes.push(['standing', slot]);
  if (state === 'bad' && memory.get('standing') === slot) changes.push(['standing', otherSlot(slot)]);
  if (state === 'bad' && isPrimary) changes.push(['primary', otherSlot(slot)]);
  if (memory.get('armed') === slot) changes.push(['armed', '']);
  return changes;
}

const roms: Readonly<Record<BootKind, Bootrom>> = { uboot, grub, tryboot, handler };

function ofVariables(title: string, spelling: OrderSpelling, machine: BootMachine): Bootloader {
  const store = {
    read: async (signal: AbortSignal) => {
      signal.throwIfAborted();
      return machine.read();
    },
    set: async (variables: ReadonlyMap<string, string>, signal: AbortSignal) => {
      signal.throwIfAborted();
      machine.write([...variables.values()].join(', '), variables);
    },
    confirm: async () => {},
  };
  const environment = new VariableEnvironment({ title, store, spelling, attempts: ATTEMPTS });
  return new EnvironmentBootloader({ environment, bootedSlot: (signal) => machine.bootedSlot(signal) });
}

function words(text: string | undefined): readonly SlotName[] {
  return unique((text ?? '').split(' ').map(nameOf));
}

function nameOf(text: string | undefined): SlotName | undefined {
  return text === 'A' || text === 'B' ? text : undefined;
}

function unique(slots: readonly (SlotName | undefined)[]): readonly SlotName[] {
  return [...new Set(slots.filter((slot) => slot !== undefined))];
}
