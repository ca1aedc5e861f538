import { custom } from './custom.ts';
import { grub } from './grub/grub.ts';
import { tryboot } from './tryboot/tryboot.ts';
import { uboot } from './uboot.ts';

/** All that there are; `kind` of `[targets.NAME.bootloader]` is one of their names. */
export const bootloaders = [uboot, grub, tryboot, custom] as const;
