import { createHash } from 'node:crypto';

/** A slot of MCUboot: an image, and the flags of its trailer. */
export interface McubootSlot {
  image: Uint8Array | undefined;
  magic: boolean;
  imageOk: boolean;
  copyDone: boolean;
}

type SwapType = 'none' | 'test' | 'perm' | 'revert';

const emptySlot = { image: undefined, magic: false, imageOk: false, copyDone: false };

/**
 * MCUboot's behavior for the two slots of an image, after its "design" page ("Image Trailer", "Swap Types", "Overwrite
 * only") and `boot_swap_type_multi`, `boot_set_next` and `boot_validate_slot` of bootutil. A real MCUboot did the same:
 * smp-model.unit.test.ts.
 */
export class McubootImage {
  readonly slots: [McubootSlot, McubootSlot];
  readonly #mode: 'swap' | 'overwrite';

  constructor(mode: 'swap' | 'overwrite', primary: Uint8Array | undefined, secondary?: Uint8Array) {
    this.#mode = mode;
    this.slots = [
      { ...emptySlot, image: primary },
      { ...emptySlot, image: secondary },
    ];
  }

  get swapType(): SwapType {
    const [primary, secondary] = this.slots;
    if (secondary.magic) return secondary.imageOk ? 'perm' : 'test';
    return primary.magic && primary.copyDone && !primary.imageOk ? 'revert' : 'none';
  }

  /** `boot_set_next`. */
  setNext(slot: number, confirm: boolean): void {
    const [primary, secondary] = this.slots;
    if (slot === 0) primary.imageOk ||= primary.magic;
    else if (!secondary.magic) {
      secondary.magic = true;
      secondary.imageOk = confirm;
    }
  }

  /** Receives an image, which erases the trailer of the slot, too. */
  erase(slot: 0 | 1, image: Uint8Array): void {
    this.slots[slot] = { ...emptySlot, image };
  }

  /** A start of the bootloader: swaps, copies or does nothing. Returns whether it changed anything. */
  start(): boolean {
    const type = this.swapType;
    if (type === 'none') return false;
    const [primary, secondary] = this.slots;
    if (hashOf(secondary.image) === undefined) {
      this.slots[1] = { ...emptySlot };
      if (type === 'revert') primary.imageOk = true;
      return false;
    }
    if (this.#mode === 'overwrite') {
      this.slots[0] = { ...emptySlot, image: secondary.image };
      this.slots[1] = { ...emptySlot };
      return true;
    }
    this.slots[0] = { image: secondary.image, magic: true, copyDone: true, imageOk: type !== 'test' };
    this.slots[1] = { ...emptySlot, image: primary.image };
    return true;
  }
}

/** The SHA-256 of an image that is whole and bootable (IMAGE_F_NON_BOOTABLE); undefined for anything else. */
export function hashOf(image: Uint8Array | undefined): Uint8Array | undefined {
  const bytes = Buffer.from(image ?? []);
  if (bytes.byteLength < 32 || bytes.readUInt32LE(0) !== 0x96f3b83d) return undefined;
  if ((bytes.readUInt32LE(16) & 0x10) !== 0) return undefined;
  const end = bytes.readUInt16LE(8) + bytes.readUInt32LE(12) + bytes.readUInt16LE(10);
  const digest = createHash('sha256').update(bytes.subarray(0, end)).digest();
  return bytes.includes(digest, end) ? digest : undefined;
}

/** As MCUboot and Zephyr write it. */
export function versionOf(image: Uint8Array): string {
  const bytes = Buffer.from(image);
  const build = bytes.readUInt32LE(24);
  const version = `${bytes[20]}.${bytes[21]}.${bytes.readUInt16LE(22)}`;
  return build === 0 ? version : `${version}.${build}`;
}
