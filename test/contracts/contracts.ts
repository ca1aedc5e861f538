import type { protocols } from '../../src/mcu/protocols/protocols.ts';
import type { bootloaders } from '../../src/slots/bootloaders/bootloaders.ts';
import type { sources } from '../../src/telemetry/sources/sources.ts';

type NameIn<Kinds extends readonly { readonly name: string }[]> = Kinds[number]['name'];

const root = 'test/unit-and-integration';
const bootloader = `${root}/slots/bootloaders`;
const protocol = `${root}/mcu/protocols/contract/protocols.contract.test.ts`;
const source = `${root}/telemetry/sources/contract`;

/** The test that runs the contract of each bootloader, protocol and source. A new one is refused without its test. */
export const contractTests = {
  bootloaders: {
    uboot: `${bootloader}/uboot.integration.test.ts`,
    grub: `${bootloader}/grub/grub.integration.test.ts`,
    tryboot: `${bootloader}/tryboot/tryboot.contract.test.ts`,
    custom: `${bootloader}/custom.integration.test.ts`,
  } satisfies Record<NameIn<typeof bootloaders>, string>,
  protocols: {
    stk500v1: protocol,
    stk500v2: protocol,
    stm32: protocol,
    esp: protocol,
    smp: protocol,
    xmodem: protocol,
  } satisfies Record<NameIn<typeof protocols>, string>,
  sources: {
    exec: `${source}/programs.contract.test.ts`,
    gpio: `${source}/programs.contract.test.ts`,
    mqtt: `${source}/network.contract.test.ts`,
    'modbus-tcp': `${source}/network.contract.test.ts`,
    'modbus-rtu': `${source}/lines.contract.test.ts`,
    serial: `${source}/lines.contract.test.ts`,
    hwmon: `${source}/files.contract.test.ts`,
    thermal: `${source}/files.contract.test.ts`,
    iio: `${source}/files.contract.test.ts`,
    w1: `${source}/files.contract.test.ts`,
    file: `${source}/files.contract.test.ts`,
    system: `${source}/files.contract.test.ts`,
  } satisfies Record<NameIn<typeof sources>, string>,
};
