import { bootloaderContract } from '../../../unit-and-integration/slots/bootloaders/bootloader-contract.ts';
import type { BootRig } from '../../../unit-and-integration/slots/bootloaders/bootloader-contract.ts';
import { Power, seededRandom } from '../power.ts';
import { FakeBootloader } from './fake-bootloader.ts';
import type { FakeStyle } from './fake-bootloader.ts';

let seed = 0;

async function openFake(style: FakeStyle): Promise<BootRig> {
  seed += 1;
  const power = new Power();
  const bootloader = new FakeBootloader(power, seededRandom(seed), style);
  bootloader.boot();
  return {
    bootloader,
    power,
    attempts: bootloader.attempts - 1,
    boot: async (argument) => {
      power.restore();
      return bootloader.boot(argument);
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

bootloaderContract('a fake bootloader with counters', () => openFake('counters'), 8);
bootloaderContract('a fake bootloader with a one-shot trial', () => openFake('one-shot'), 8);
