import { makeGrubDisk, openGatewayImages, openSmallImages } from '../../../fakes/machine/booting/disk-images.ts';
import type { BootType, DiskOptions, GatewayImages } from '../../../fakes/machine/booting/disk-images.ts';
import type { GatewayMachine } from '../../../fakes/machine/booting/gateway-machine.ts';
import { newUefi, qemuGateway } from '../../../fakes/machine/booting/qemu-gateway.ts';
import type { Machines } from '../record.ts';
import { GatewayBoard } from './gateway-board.ts';
import { loopGateway } from './loop-machine.ts';

/** `qemu`: an emulated machine that really boots. `loop`: this machine, with the gateway's disk, bootloader and agent. */
export type MachineKind = 'qemu' | 'loop';

/** Parts of gateways. Disposal powers all of them off. */
export interface Rig extends Machines, AsyncDisposable {
  readonly machine: MachineKind;
  readonly firmware: 'bios' | 'efi';
  readonly bootType: BootType;
  readonly images: GatewayImages;
  readonly makeDisk: (contents: Pick<DiskOptions, 'slot' | 'kernel' | 'out'>) => Promise<void>;
}

export interface RigOptions {
  readonly machine: MachineKind;
  readonly bootType: BootType;
  /** Firmware of the emulated machine. Default: a BIOS. */
  readonly firmware?: 'bios' | 'efi';
  /**
   * Clock of the emulated machine: `time` (this machine's, the default), or `work`: it counts executed instructions, so
   * that load on the host shortens no deadline. That costs 2 s of processor time for each start, with UEFI 6 s.
   */
  readonly clock?: Clock;
}

/**
 * Factor by which the board is slower than real time, as emulated machines are: its bootloader exits after a second.
 */
const EMULATED_SLOWNESS = 4;

export type Clock = 'time' | 'work';

/** QEMU's -icount: 125 million instructions are a second, about as on an idle machine. */
const clocks: Readonly<Record<Clock, readonly string[]>> = { time: [], work: ['-icount', 'shift=3,sleep=on'] };

export async function openRig({ machine, bootType, firmware = 'bios', clock = 'time' }: RigOptions): Promise<Rig> {
  const images = machine === 'qemu' ? await openGatewayImages({ bootType }) : await openSmallImages();
  const publicKey = images.keys.publicPem;
  const opened = new Set<GatewayMachine>();
  const open: Machines['openGateway'] = (place) => {
    if (machine === 'loop') return loopGateway({ ...place, publicKey, board: place.board?.toml });
    const { board: serial, ...others } = place;
    const more = clocks[clock];
    return qemuGateway({
      ...others,
      serial,
      more,
      ...(firmware === 'bios' ? {} : { efi: newUefi(`${place.disk}.variables`) }),
    });
  };
  return {
    machine,
    firmware,
    bootType,
    images,
    makeDisk: async (contents) => makeGrubDisk({ ...contents, bootType, firmware }),
    openGateway: (place) => {
      const gateway = open(place);
      opened.add(gateway);
      return gateway;
    },
    startBoard: async (contents, notesFolder) =>
      GatewayBoard.start({ contents, notesFolder, slowness: machine === 'qemu' ? EMULATED_SLOWNESS : 1 }),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...opened].map(async (gateway) => gateway.powerOff()));
      await images[Symbol.asyncDispose]();
    },
  };
}
