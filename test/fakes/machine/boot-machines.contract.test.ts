import { bootloaderContract } from '../../unit-and-integration/slots/bootloaders/bootloader-contract.ts';
import type { BootRig } from '../../unit-and-integration/slots/bootloaders/bootloader-contract.ts';
import { BootMachine, bootKinds } from './boot-machines.ts';
import type { BootKind } from './boot-machines.ts';
import { Power, seededRandom } from './power.ts';

let seed = 0;

async function openRig(kind: BootKind): Promise<BootRig> {
  seed += 1;
  const power = new Power();
  const machine = new BootMachine({ kind, power, random: seededRandom(seed) });
  machine.start(undefined);
  return {
    bootloader: machine.bootloader,
    power,
    attempts: 2,
    boot: async (argument) => {
      power.restore();
      return machine.start(argument);
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

for (const kind of bootKinds) bootloaderContract(`${kind} in memory`, () => openRig(kind), 8);
