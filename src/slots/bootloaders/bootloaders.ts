import { custom } from './custom.ts';
import { grub } from './grub/grub.ts';
import { tryboot } from './tryboot/tryboot.ts';
import { uboot } from './uboot.ts';

/** All bootloaders; `kind` of `[targets.NAME.bootloader]` names one of them. */
export const bootloaders = [uboot, grub, tryboot, custom] as const;
