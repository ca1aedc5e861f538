import type { CborMap } from '../../../../../src/mcu/protocols/cbor.ts';
import { hashOf, versionOf } from './mcuboot.ts';
import type { McubootImage, McubootSlot } from './mcuboot.ts';

/** Return codes of SMP version 1. */
const [invalid, noEntry, badState, notSupported, unknownError] = [3, 5, 6, 8, 1];

export interface SmpServerOptions {
  readonly images: readonly McubootImage[];
  readonly bufferBytes: number;
  /** Serial recovery: lists hashes (BOOT_SERIAL_IMG_GRP_HASH), and states (BOOT_SERIAL_IMG_GRP_IMAGE_STATE). */
  readonly hashes?: boolean;
  readonly states?: boolean;
  /** Zephyr: without `splitStatus` and false flags (MCUMGR_GRP_IMG_FRUGAL_LIST). */
  readonly frugal?: boolean;
  /** Uploads are numbered by slot (…DIRECT_UPLOAD, and slot info). */
  readonly direct?: boolean;
}

/** Effects of a server beyond its reply. */
export interface SmpEffects {
  /** A chunk was received: how long the flash memory works; false: the power has gone. */
  readonly onWrite: (erasedBytes: number) => boolean;
}

/** An SMP server: a request in, an answer out. */
export interface SmpServer {
  obey(write: boolean, group: number, command: number, request: CborMap): CborMap;
}

/** The upload of an image into a slot, the same in both servers: they ask again for unaligned or unexpected data. */
class Upload {
  readonly #effects: SmpEffects;
  readonly #forgets: boolean;
  #length = 0;
  #expected = 0;
  #memory = new Uint8Array();

  constructor(effects: SmpEffects, forgets: boolean) {
    this.#effects = effects;
    this.#forgets = forgets;
  }

  take({ off, data, len }: CborMap, open: () => (image: Uint8Array) => void): CborMap {
    if (typeof off !== 'number' || !(data instanceof Uint8Array)) return { rc: invalid };
    let erased = 0;
    if (off === 0) {
      if (typeof len !== 'number') return { rc: invalid };
      this.#length = len;
      this.#expected = 0;
      erased = len;
      this.#memory = new Uint8Array(len).fill(0xff);
      open()(this.#memory);
    }
    if (off === this.#expected && this.#length > 0) {
      const isLast = off + data.byteLength >= this.#length;
      const taken = isLast ? data : data.subarray(0, data.byteLength & ~3);
      if (off + taken.byteLength > this.#length) return { rc: invalid };
      if (this.#effects.onWrite(erased)) this.#memory.set(taken, off);
      this.#expected += taken.byteLength;
    }
    const next = this.#expected;
    // Zephyr forgets an upload that is complete: a repeated last chunk is answered with 0
    if (this.#forgets && next === this.#length) [this.#length, this.#expected] = [0, 0];
    return { rc: 0, off: next };
  }
}

/**
 * MCUboot's serial recovery, after `boot_serial.c` of MCUboot 2.4.0: it receives into the first slot, lists only images
 * that it would start, marks none as active while one is pending, and marks the *second* slot whichever hash is
 * selected. A real MCUboot answered the same: smp-model.unit.test.ts.
 */
export class SerialRecovery implements SmpServer {
  readonly #options: SmpServerOptions;
  readonly #upload: Upload;

  constructor(options: SmpServerOptions, effects: SmpEffects) {
    this.#options = options;
    this.#upload = new Upload(effects, false);
  }

  obey(write: boolean, group: number, command: number, request: CborMap): CborMap {
    const { images, bufferBytes, states, direct } = this.#options;
    switch (`${group}/${command}`) {
      case '0/1':
      case '0/5':
        return { rc: 0 };
      case '0/6':
        return { buf_size: bufferBytes, buf_count: 1 };
      case '1/0':
        if (!write) return this.#list();
        return states === true ? this.#select(request) : { rc: notSupported };
      case '1/1':
        return this.#take(request);
      case '1/6':
        return direct === true ? slotInfo(images) : { rc: notSupported };
      default:
        return { rc: notSupported };
    }
  }

  #take(request: CborMap): CborMap {
    const { images, direct } = this.#options;
    const number = typeof request['image'] === 'number' ? request['image'] : 0;
    const slots = images.flatMap((image) => ([0, 1] as const).map((slot) => ({ image, slot })));
    const place = direct === true ? slots[Math.max(0, number - 1)] : slots[2 * number];
    if (place === undefined) return { rc: invalid };
    return this.#upload.take(request, () => (bytes) => place.image.erase(place.slot, bytes));
  }

  #list(): CborMap {
    const { images, hashes, states } = this.#options;
    return {
      images: images.flatMap((image, number) =>
        image.slots.flatMap((slot, index) => {
          const hash = hashOf(slot.image);
          if (slot.image === undefined || hash === undefined) return [];
          return [
            {
              ...(images.length > 1 && { image: number }),
              ...(states === true && { bootable: true, ...recoveryFlags(image, index) }),
              slot: index,
              ...(hashes !== false && { hash }),
              version: versionOf(slot.image),
            },
          ];
        }),
      ),
    };
  }

  #select({ hash, confirm }: CborMap): CborMap {
    const { images } = this.#options;
    if (!(hash instanceof Uint8Array)) return { rc: invalid };
    const image = images.find(({ slots }) => slots.some((slot) => isSame(hashOf(slot.image), hash)));
    if (image === undefined) return { rc: noEntry };
    image.setNext(1, confirm === true);
    return this.#list();
  }
}

function recoveryFlags({ swapType }: McubootImage, slot: number): CborMap {
  const isFirst = slot === 0;
  if (swapType === 'none') return isFirst ? { confirmed: true, active: true } : {};
  if (swapType === 'revert') return isFirst ? { active: true } : { confirmed: true };
  if (isFirst) return { confirmed: true };
  return { pending: true, ...(swapType === 'perm' && { permanent: true }) };
}

/**
 * The server of an application, after Zephyr's `img_mgmt.c` and `img_mgmt_state.c` (SMP version 1): it receives into the
 * slot that does not run and refuses while that is in use; it knows no console echo; it trusts hashes without checking
 * signatures.
 */
export class ApplicationServer implements SmpServer {
  readonly #options: SmpServerOptions;
  readonly #upload: Upload;

  constructor(options: SmpServerOptions, effects: SmpEffects) {
    this.#options = options;
    this.#upload = new Upload(effects, true);
  }

  obey(write: boolean, group: number, command: number, request: CborMap): CborMap {
    const { images, bufferBytes, direct } = this.#options;
    switch (`${group}/${command}`) {
      case '0/5':
        return {};
      case '0/6':
        return { buf_size: bufferBytes, buf_count: 4 };
      case '1/0':
        return write ? this.#select(request) : this.#list();
      case '1/1':
        return this.#take(request);
      case '1/6':
        return direct === true ? slotInfo(images) : { rc: notSupported };
      default:
        return { rc: notSupported };
    }
  }

  #take(request: CborMap): CborMap {
    const { images } = this.#options;
    const number = images.length > 1 && typeof request['image'] === 'number' ? request['image'] : 0;
    const image = images[number];
    if (image === undefined) return { rc: invalid };
    if (request['off'] === 0 && image.swapType !== 'none') return { rc: badState };
    return this.#upload.take(request, () => (bytes) => image.erase(1, bytes));
  }

  #list(): CborMap {
    const { images, frugal } = this.#options;
    const listed = images.flatMap((image, number) =>
      image.slots.flatMap((slot, index) => {
        const hash = statedHash(slot);
        if (slot.image === undefined || hash === undefined) return [];
        const all: CborMap = { bootable: true, ...applicationFlags(image, index) };
        const flags = frugal === true ? Object.fromEntries(Object.entries(all).filter(([, set]) => set === true)) : all;
        const name = images.length > 1 ? { image: number } : {};
        return [{ ...name, slot: index, version: versionOf(slot.image), hash, ...flags }];
      }),
    );
    return { images: listed, ...(frugal !== true && { splitStatus: 0 }) };
  }

  #select({ hash, confirm }: CborMap): CborMap {
    const { images } = this.#options;
    const toStay = confirm === true;
    if (!(hash instanceof Uint8Array)) return { rc: invalid };
    const image = images.find(({ slots }) => slots.some((slot) => isSame(statedHash(slot), hash)));
    if (image === undefined) return { rc: unknownError };
    const slot = image.slots.findIndex((candidate) => isSame(statedHash(candidate), hash));
    const refusal = refusalOf(image, slot, toStay);
    if (refusal === undefined) image.setNext(slot, toStay);
    return refusal === undefined || refusal === 0 ? this.#list() : { rc: refusal };
  }
}

/** `img_mgmt_set_next_boot_slot`: the code of a refusal; 0: that slot is selected already. */
function refusalOf({ swapType }: McubootImage, slot: number, toStay: boolean): number | undefined {
  if (!toStay && slot === 0) return unknownError;
  const next = swapType === 'none' ? 0 : 1;
  const isSelected = slot === next && (toStay ? swapType !== 'test' : swapType === 'test');
  if (isSelected) return 0;
  const isPending = swapType === 'test' || swapType === 'perm';
  return isPending || (swapType === 'revert' && !toStay) ? badState : undefined;
}

function applicationFlags({ swapType }: McubootImage, slot: number): CborMap {
  const isActive = slot === 0;
  return {
    pending: !isActive && (swapType === 'test' || swapType === 'perm'),
    confirmed: isActive ? swapType !== 'revert' : swapType === 'revert',
    active: isActive,
    permanent: !isActive && swapType === 'perm',
  };
}

function slotInfo(images: readonly McubootImage[]): CborMap {
  const slots = (image: number): CborMap[] =>
    [0, 1].map((slot) => ({ slot, size: 65_536, upload_image_id: image * 2 + slot + 1 }));
  return { images: images.map((_, image) => ({ image, slots: slots(image), max_image_size: 57_344 })) };
}

/** The hash that the trailer states, whether the image is whole or not. */
function statedHash({ image }: McubootSlot): Uint8Array | undefined {
  if (image === undefined) return undefined;
  const bytes = Buffer.from(image);
  if (bytes.byteLength < 32 || bytes.readUInt32LE(0) !== 0x96f3b83d) return undefined;
  const trailer = bytes.readUInt16LE(8) + bytes.readUInt32LE(12) + bytes.readUInt16LE(10);
  if (trailer + 40 > bytes.byteLength || bytes.readUInt16LE(trailer) !== 0x6907) return undefined;
  return bytes.readUInt16LE(trailer + 4) === 0x10 ? bytes.subarray(trailer + 8, trailer + 40) : undefined;
}

function isSame(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && Buffer.compare(a, b) === 0;
}
