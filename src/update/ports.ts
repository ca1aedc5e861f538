// What an update needs of the other rooms. Rooms that implement a port import its type from here (types only); daemon/
// hands the implementations to update(). Nothing here does anything.

import type { WirePosition, WrittenPrefix } from './journal/parts/checkpoint.ts';

export type { ArtifactPlace, Checkpoint, WirePosition, WrittenPrefix } from './journal/parts/checkpoint.ts';

/** The service's name for a firmware. */
export interface Version {
  readonly id: string;
  readonly name: string;
  readonly description?: string | undefined;
}

export type SlotName = 'A' | 'B';

// ---------------------------------------------------------------------------------------------------------- service

/** The provisioning operations of interface.md, for this thing. Activation, keys and retries are behind it. */
export interface ProvisioningService {
  currentVersion(signal: AbortSignal): Promise<Version>;
  targetVersion(signal: AbortSignal): Promise<Version>;
  /** The versions to which the thing can switch from the given one. */
  updates(fromVersionId: string, signal: AbortSignal): Promise<readonly Version[]>;
  firmware(versionId: string): FirmwareSource;
  /** Sets the service's version, or confirms it: the same call. Safe to repeat. */
  switchTo(versionId: string, signal: AbortSignal): Promise<void>;
  setProperty(propertyId: string, value: unknown, signal: AbortSignal): Promise<void>;
}

/** A firmware that can be read from the start, as often as needed. */
export interface FirmwareSource {
  /** `json-string`: the encoded text as the service sends it. `decoded`: the bytes themselves, as from a file. */
  readonly form: 'json-string' | 'decoded';
  /**
   * Opens a transfer. It starts at `from.offset` if the other side still has the same text, else at 0 (see
   * `startOffset`). A cut connection is taken up again inside; if the text changed meanwhile, reading throws
   * `firmware-changed` (retry).
   */
  open(from: WirePosition | undefined, signal: AbortSignal): Promise<FirmwareTransfer>;
}

export interface FirmwareTransfer extends AsyncDisposable {
  readonly startOffset: number;
  readonly totalBytes: number | undefined;
  readonly validator: string | undefined;
  /** In order, without gaps. A chunk is valid until the next one is asked for. Read once. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

// --------------------------------------------------------------------------------------------------------- firmware

/** What is known of a firmware before its first payload byte is used: for an artifact, verified against a trusted key. */
export interface FirmwareHeader {
  /** `trust-list`: keys and revocations, for no target; in effect once it was read to its end. */
  readonly kind: 'artifact' | 'image' | 'trust-list';
  /** `sha256:` and hex: of an artifact's manifest; undefined for a raw image, which is known only at its end. */
  readonly digest: string | undefined;
  /** The artifact's name. */
  readonly name: string | undefined;
  readonly deviceTypes?: readonly string[] | undefined;
  /** What the artifact itself provides as `security_version`. */
  readonly securityVersion?: number | undefined;
  /** Which trusted key signed it; undefined: unsigned, and the operator wrote that it may be installed. */
  readonly signedBy: string | undefined;
  /** It has a signature, but by no trusted key, and counts as unsigned. */
  readonly unknownSigner?: boolean | undefined;
  readonly payloads: readonly PayloadHeader[];
  /** As of a StagedFirmware; undefined: not known before its end. */
  readonly provides?: Readonly<Record<string, string>> | undefined;
}

export interface PayloadHeader {
  readonly fileName: string;
  /** A name of `[targets]`; `rootfs-image`: the only target of kind slots; `default`: a raw image. */
  readonly target: { readonly name: string } | 'rootfs-image' | 'default';
  /** Boards with a number are flashed one after the other, before those without, which are flashed in parallel. */
  readonly order?: number | undefined;
  /** `sha256:` and hex of what its place is to hold, as was signed; undefined: a raw image. */
  readonly digest?: string | undefined;
  /** The file is no image: it is rebuilt from the one that runs. */
  readonly delta?: DeltaPromise | undefined;
}

/** What was signed of a delta. */
export interface DeltaPromise {
  /** What the partition must hold that runs: its first bytes. */
  readonly base: WrittenPrefix;
  readonly result: WrittenPrefix;
}

/** The bytes from which a delta is rebuilt. */
export interface BaseReader extends AsyncDisposable {
  /** Up to 2 MiB; valid until the next call. */
  read(position: number, sizeBytes: number, signal: AbortSignal): Promise<Uint8Array>;
}

export interface PayloadOpening {
  readonly payload: PayloadHeader;
  /** Of what is written; known for artifacts, undefined for a raw image. */
  readonly sizeBytes: number | undefined;
  /** Go on after this prefix: it is read back and compared; `checkpoint-stale` (retry) is thrown where it differs. */
  readonly resumeAt: WrittenPrefix | undefined;
}

/** Takes one payload. Disposing it unfinished leaves the place unusable, which is safe. */
export interface PayloadWriter extends AsyncDisposable {
  /** Takes the whole chunk before it returns. A promise asks the caller to wait before the next chunk. */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Makes durable what was written so far. */
  checkpoint(signal: AbortSignal): Promise<WrittenPrefix>;
  /** Makes everything durable, reads it back and compares. */
  finish(signal: AbortSignal): Promise<WrittenPayload>;
}

/** What an image for MCUboot says of itself; its version is `1.2.3` or `1.2.3+4`. */
export interface ImageClaims {
  readonly securityCounter?: number | undefined;
  readonly imageVersion?: string | undefined;
}

export interface WrittenPayload extends WrittenPrefix, ImageClaims {
  /** Blocks that held these bytes already and were not written again. */
  readonly unchangedBytes: number;
  /** Of a delta: so many more bytes than came; they are of the slot that runs. */
  readonly fromBaseBytes?: number | undefined;
}

// ---------------------------------------------------------------------------------------------------------- targets

/** Something that a payload is installed on. */
export type Target = SlotsTarget | InPlaceTarget;

/** Without a second place: what stood there before is kept, and put back where the new one proves bad. */
export type InPlaceTarget = McuTarget | PackageTarget;

/** A pair of partitions. */
export interface SlotsTarget {
  readonly kind: 'slots';
  readonly name: string;
  /** Refuses a slot that is booted, mounted, missing or too small, before the first byte is written. */
  openSlot(slot: SlotName, opening: PayloadOpening, signal: AbortSignal): Promise<PayloadWriter>;
  /** `sha256:` and hex of the slot's first bytes, read from the medium. */
  digestOf(slot: SlotName, sizeBytes: number, signal: AbortSignal): Promise<string>;
  /** The slot's bytes, as they are asked for: the slot may run. */
  openBase(slot: SlotName, signal: AbortSignal): Promise<BaseReader>;
  /** Whether its image is one to which nothing writes while it runs. */
  isReadOnly(slot: SlotName, signal: AbortSignal): Promise<boolean>;
  /** Writes the slot's first bytes, read from the medium; leaves it to the caller to finish. */
  copyInto(writer: PayloadWriter, slot: SlotName, sizeBytes: number, signal: AbortSignal): Promise<void>;
}

/** A microcontroller. */
export interface McuTarget extends InPlace {
  readonly kind: 'mcu';
}

/** A package of this system. Who installs it may be ended and started anew by its scripts; asked again, it goes on. */
export interface PackageTarget extends InPlace {
  readonly kind: 'package';
}

/** A payload is named by the digest with which it was staged. */
interface InPlace {
  readonly name: string;
  /** Keeps the payload in the state directory until it is flashed; `finish` refuses what is nothing for this target. */
  openFile(opening: PayloadOpening, signal: AbortSignal): Promise<PayloadWriter>;
  /** `sha256:` and hex of the kept payload's first bytes. */
  digestOf(sizeBytes: number, signal: AbortSignal, digest: string): Promise<string>;
  /** Flashes, or installs, the kept payload, of which the evidence is. What the board held is kept first, once for each payload. Harmless to repeat. */
  flash(payload: BoardPayload, evidence: Verified, signal: AbortSignal): Promise<void>;
  /** Flashes what the board held before this payload was flashed; nothing if it never was. Harmless to repeat. */
  restore(payload: BoardPayload, vouch: VouchForKept, signal: AbortSignal): Promise<void>;
  /** Whether the payload of this digest can be flashed again, and whether what the board held before it can be restored. */
  keeps(digest: string): Promise<KeptForBoard>;
}

export interface KeptForBoard {
  readonly payload: boolean;
  readonly before: boolean;
}

export interface BoardPayload {
  readonly digest: string;
  readonly onProgress: (progress: BoardProgress) => void;
}

export interface BoardProgress {
  /** The target's name. */
  readonly board: string;
  /** One word: connecting, keeping, writing, … */
  readonly step: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

declare const verified: unique symbol;

/** Evidence that a firmware, or what is kept for a board, is what a trusted key or the operator vouched for, by its digest. Made only by update/evidence.ts. */
export interface Verified {
  readonly digest: string;
  readonly [verified]: true;
}

/** Makes the evidence for what a board held before: the digest that was kept with it, and the one that it has now. Throws where they differ. */
export type VouchForKept = (kept: {
  readonly target: string;
  readonly recorded: string;
  readonly found: string;
}) => Verified;

declare const wholeSlot: unique symbol;

/** Evidence that every partition of a slot holds what was vouched for. Made only by update/evidence.ts. */
export interface WholeSlot extends Verified {
  readonly slot: SlotName;
  readonly [wholeSlot]: true;
}

/** Which slot boots. Each method is one atomic change of the boot environment, and harmless to repeat. */
export interface Bootloader {
  /** Passed to the reboot command when a trial is to be booted, e.g. `0 tryboot`. */
  readonly trialRebootArgument: string | undefined;
  /** The slot that runs now, from the bootloader, checked against what is mounted. */
  bootedSlot(signal: AbortSignal): Promise<SlotName>;
  /** Whether this boot falls back by itself unless it is committed. A journal may be missing in a slot that nobody judged. */
  onTrial(signal: AbortSignal): Promise<boolean>;
  /** Changes and reads back a harmless variable; throws where the boot environment cannot be written. */
  canary(signal: AbortSignal): Promise<void>;
  /**
   * This slot will not boot, whatever happens, until `tryOnce`. Refuses the booted slot unless another can boot.
   * `lastWord`: the code of an error, for the agent in the other slot, where this one cannot write its journal.
   */
  markUnbootable(slot: SlotName, signal: AbortSignal, lastWord?: string): Promise<void>;
  /** Boot this slot next, once; without `commit` the bootloader falls back to the other by itself. The evidence is of this slot, or nothing is armed. */
  tryOnce(slot: SlotName, evidence: WholeSlot, signal: AbortSignal): Promise<void>;
  /** The one write that decides: this slot boots from now on, with fresh boot counters. */
  commit(slot: SlotName, signal: AbortSignal): Promise<void>;
  inspect(signal: AbortSignal): Promise<BootState>;
}

export interface BootState {
  /** Boots next if nothing fails. */
  readonly primary: SlotName;
  /** Nobody has written yet which boots are trials: `onTrial` goes by counters, which power cuts run down as well. */
  readonly trialIsGuessed?: boolean | undefined;
  readonly slots: Readonly<Record<SlotName, SlotBootState>>;
  /** As `Bootloader.onTrial`, of the boot of each slot, should it be the one that runs. */
  readonly onTrial: Readonly<Record<SlotName, boolean>>;
}

export interface SlotBootState {
  readonly bootable: boolean;
  readonly detail: string;
  /** What the agent in this slot said when it left it; undefined: nothing, or the bootloader has no place for it. */
  readonly lastWord?: string | undefined;
}

export interface Machine {
  /** Changes with every boot of the kernel. */
  bootId(): Promise<string>;
  /** Starts a reboot and returns; the argument is the bootloader's. */
  reboot(argument: string | undefined, signal: AbortSignal): Promise<void>;
}
