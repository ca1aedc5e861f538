import { McuError } from '../../errors.ts';
import { makeImage } from '../../images/image.ts';
import type { Image } from '../../images/image.ts';
import { mcubootHeader, mcubootMagic } from '../../images/mcuboot.ts';
import type { Standing } from '../../protocol.ts';
import { isArray, isMap } from '../cbor.ts';
import type { CborMap } from '../cbor.ts';

/** "255.255.65535.4294967295", and additions by other servers. */
const maxVersionLength = 48;

/**
 * A slot as an SMP server lists it. Sources: Zephyr, "Application/software image management group", "State of images",
 * and its `img_mgmt_state.c`; MCUboot, `bs_list` of `boot_serial.c`.
 */
export interface Slot {
  /** Omitted if the server has only one image. */
  readonly image: number | undefined;
  readonly slot: number;
  readonly version: string;
  /** In hex. Omitted for MCUboot's serial recovery without BOOT_SERIAL_IMG_GRP_HASH. */
  readonly hash: string | undefined;
  readonly active: boolean;
  readonly pending: boolean;
  readonly confirmed: boolean;
}

/** The image that is looked for, as the slots name it. */
export interface Wanted {
  readonly hash: string;
  readonly version: string;
}

/** The image list of a server. Empty slots are not in it, nor those whose image MCUboot refuses. */
export function slotsIn({ images }: CborMap): readonly Slot[] {
  return isArray(images) ? images.filter(isMap).map(slotIn) : [];
}

function slotIn({ image, slot, version, hash, active, pending, confirmed }: CborMap): Slot {
  return {
    image: typeof image === 'number' ? image : undefined,
    slot: typeof slot === 'number' ? slot : 0,
    version: typeof version === 'string' ? version.slice(0, maxVersionLength) : '',
    hash: hash instanceof Uint8Array ? Buffer.from(hash).toString('hex') : undefined,
    active: active === true,
    pending: pending === true,
    confirmed: confirmed === true,
  };
}

/** The slot whose image runs, or starts if nothing is pending: serial recovery and old servers mark none as active. */
export function runningSlot(slots: readonly Slot[]): Slot | undefined {
  return slots.find(({ active }) => active) ?? slots.find(({ slot }) => slot === 0);
}

/** True if MCUboot returns to the other slot at the next start, because the image on trial is not confirmed. */
function reverts(slots: readonly Slot[]): boolean {
  const running = runningSlot(slots);
  return running?.confirmed === false && slots.some((slot) => slot !== running && slot.confirmed);
}

/**
 * Returns the state of the wanted image on the board. `slots` are the slots with one image number. An application's
 * server receives into the other slot; serial recovery receives into the one that starts, so there only that one
 * counts.
 */
export function standingOf(wanted: Wanted, slots: readonly Slot[], isRecovery: boolean): Standing {
  const running = runningSlot(slots);
  const pending = slots.find((slot) => slot.pending);
  if (pending !== undefined) return standingOfPending(wanted, pending, isRecovery);
  // the list names only images that MCUboot would start, so without a hash the version has to do
  if (running?.hash === undefined) return isSameVersion(running?.version, wanted.version) ? 'unknown' : 'absent';
  const isRunning = running.hash === wanted.hash;
  if (reverts(slots)) return standingOnTrial(isRunning, isRecovery);
  if (isRunning) return running.active ? 'stays' : 'first';
  return !isRecovery && slots.some(({ hash }) => hash === wanted.hash) ? 'held' : 'absent';
}

/** Serial recovery cannot report afterwards which image it started. */
function standingOfPending({ hash }: Wanted, pending: Slot, isRecovery: boolean): Standing {
  return isRecovery || pending.hash !== hash ? 'unsettled' : 'selected';
}

/** An image received by serial recovery ends the trial, and stays. */
function standingOnTrial(isRunning: boolean, isRecovery: boolean): Standing {
  if (isRecovery) return 'absent';
  return isRunning ? 'on-trial' : 'unsettled';
}

/** Servers separate the build number by a dot, imgtool by a plus. */
function isSameVersion(listed: string | undefined, wanted: string): boolean {
  return listed === wanted.replace('+', '.');
}

export function describeSlot({ image, slot, version, hash }: Slot): string {
  const name = image === undefined ? `slot ${slot}` : `slot ${slot} of image ${image}`;
  return `${name}, version ${version}${hash === undefined ? '' : ` (${hash.slice(0, 12)})`}`;
}

/** An image that a board holds in a slot, known by its hash alone. */
export function imageNamed(hash: string): Image {
  return makeImage('mcuboot', [{ address: 0, bytes: Buffer.from(hash, 'hex') }]);
}

/** The file to upload. */
export function fileOf(image: Image): Uint8Array {
  const bytes = bytesOf(image);
  if (isFile(bytes)) return bytes;
  throw new McuError(
    'board-not-restorable',
    'the board no longer holds the image that it ran before, and its file is not kept',
  );
}

/** How slots name an image, from its file or its hash alone. */
export function wantedOf(image: Image): Wanted {
  const bytes = bytesOf(image);
  return isFile(bytes) ? mcubootHeader(bytes) : { hash: Buffer.from(bytes).toString('hex'), version: '' };
}

function bytesOf({ format, segments }: Image): Uint8Array {
  const [only] = segments;
  if (format === 'mcuboot' && only !== undefined) return only.bytes;
  throw new McuError('image-wrong-chip', `MCUboot takes images that are signed for it, not ${format}`);
}

function isFile(bytes: Uint8Array): boolean {
  return bytes.byteLength >= 4 && Buffer.from(bytes).readUInt32LE(0) === mcubootMagic;
}
