// Interfaces that an update needs from other modules, which import their types from here; daemon/ passes the
// implementations to update(). This file has types only.

import type { WirePosition, WrittenPrefix } from './journal/state.ts';

export type { ArtifactPlace, Checkpoint, WirePosition, WrittenPrefix } from './journal/state.ts';

/** The service's name for a release. */
export interface Version {
  readonly id: string;
  readonly name: string;
  readonly description?: string | undefined;
}

export type SlotName = 'A' | 'B';

// ---------------------------------------------------------------------------------------------------------- service

/** The provisioning operations of interface.md for this thing. Activation, keys and retries are hidden behind it. */
export interface ProvisioningService {
  currentVersion(signal: AbortSignal): Promise<Version>;
  targetVersion(signal: AbortSignal): Promise<Version>;
  /** The versions to which the thing can switch from the given one. */
  updates(fromVersionId: string, signal: AbortSignal): Promise<readonly Version[]>;
  firmware(versionId: string): FirmwareSource;
  /** Sets the service's version, or confirms it, by the same call. May be repeated. */
  switchTo(versionId: string, signal: AbortSignal): Promise<void>;
  setProperty(propertyId: string, value: unknown, signal: AbortSignal): Promise<void>;
  /**
   * Returns the current version for comparison with the running one, which is due after a start, an activation or a
   * switch with an unknown end, and once a day. Undefined if it is not due, or if this gateway is not activated.
   */
  recordedVersion(signal: AbortSignal): Promise<RecordedVersion | undefined>;
}

export interface RecordedVersion {
  /** Omitted if the service has no current version for this thing. */
  readonly id: string | undefined;
}

/** Firmware that can be read from its start as often as needed; for a file that is sent, only its header can. */
export interface FirmwareSource {
  /** `json-string`: the encoded text as the service sends it. `decoded`: the bytes themselves, as from a file. */
  readonly form: 'json-string' | 'decoded';
  /**
   * Opens a transfer. It starts at `from.offset` if the server still has the same text, otherwise at 0 (see
   * `startOffset`), and continues automatically after an interruption. Reading throws `firmware-changed` (retry) if the
   * text changed.
   */
  open(from: WirePosition | undefined, signal: AbortSignal): Promise<FirmwareTransfer>;
}

export interface FirmwareTransfer extends AsyncDisposable {
  readonly startOffset: number;
  readonly totalBytes: number | undefined;
  readonly validator: string | undefined;
  /** The bytes in order, without gaps, to be read once. A chunk is valid until the next request. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

// --------------------------------------------------------------------------------------------------------- firmware

/**
 * The known facts about a release before its first payload byte is used. For an artifact they are verified with a
 * trusted key.
 */
export interface FirmwareHeader {
  /** `trust-list`: keys and revocations, for no target. It is in effect after it was read completely. */
  readonly kind: 'artifact' | 'image' | 'trust-list';
  /**
   * `sha256:` and the hex digest of an artifact's manifest. Undefined for a raw image, whose digest is known at its
   * end.
   */
  readonly digest: string | undefined;
  /** The artifact's name. */
  readonly name: string | undefined;
  readonly deviceTypes?: readonly string[] | undefined;
  /** The `security_version` that the artifact itself provides. */
  readonly securityVersion?: number | undefined;
  /** The trusted key that signed it. Undefined if it is unsigned, and the operator permits that. */
  readonly signedBy: string | undefined;
  /** It has a signature, but of no trusted key, and counts as unsigned. */
  readonly unknownSigner?: boolean | undefined;
  readonly payloads: readonly PayloadHeader[];
  /** As in a StagedFirmware. Undefined if not known before its end. */
  readonly provides?: Readonly<Record<string, string>> | undefined;
}

export interface PayloadHeader {
  readonly fileName: string;
  /** A name of `[targets]`; `rootfs-image`: the only target of kind slots; `default`: the target of a raw image. */
  readonly target: { readonly name: string } | 'rootfs-image' | 'default';
  /** Boards with a number are flashed one after the other, before those without: in parallel, unless they share a port. */
  readonly order?: number | undefined;
  /** `sha256:` and the hex digest of the target's future content, as it was signed. Undefined for a raw image. */
  readonly digest?: string | undefined;
  /** The file must be rebuilt from the running image. */
  readonly delta?: DeltaClaims | undefined;
}

/** The signed claims about a delta. */
export interface DeltaClaims {
  /** The required content of the running partition: its first bytes. */
  readonly base: WrittenPrefix;
  readonly result: WrittenPrefix;
}

/** The bytes from which a delta is rebuilt. */
export interface BaseReader extends AsyncDisposable {
  /** At most 2 MiB, valid until the next call. */
  read(position: number, sizeBytes: number, signal: AbortSignal): Promise<Uint8Array>;
}

export interface PayloadOpening {
  readonly payload: PayloadHeader;
  /** The size of what is written; undefined for a raw image. */
  readonly sizeBytes: number | undefined;
  /** Continue behind this prefix, which is read back and compared. Throws `checkpoint-stale` (retry) if it differs. */
  readonly resumeAt: WrittenPrefix | undefined;
}

/** Takes one payload. Disposing it before `finish` leaves its place unusable, which is safe. */
export interface PayloadWriter extends AsyncDisposable {
  /** Takes the whole chunk before it returns. If it returns a promise, wait for it before the next chunk. */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Makes all data written so far durable. */
  checkpoint(signal: AbortSignal): Promise<WrittenPrefix>;
  /** Makes everything durable, reads it back and compares. */
  finish(signal: AbortSignal): Promise<WrittenPayload>;
}

/** The claims of an image for MCUboot; its version is `1.2.3` or `1.2.3+4`. */
export interface ImageClaims {
  readonly securityCounter?: number | undefined;
  readonly imageVersion?: string | undefined;
}

export interface WrittenPayload extends WrittenPrefix, ImageClaims {
  /** Bytes that were already there, and were not written again. */
  readonly unchangedBytes: number;
  /** With a delta: bytes that were taken from the running slot and not received. */
  readonly deltaBaseBytes?: number | undefined;
}

// ---------------------------------------------------------------------------------------------------------- targets

/** Something on which a payload is installed. */
export type Target = SlotsTarget | InPlaceTarget;

/** A target without a second place: what it held before is kept, and put back if the new one proves bad. */
export type InPlaceTarget = McuTarget | PackageTarget;

/** A pair of partitions. */
export interface SlotsTarget {
  readonly kind: 'slots';
  readonly name: string;
  /**
   * Guarantee `running-slot`: refuses a slot that is booted, mounted, missing or too small, before its first byte is
   * written.
   */
  openSlot(slot: SlotName, opening: PayloadOpening, signal: AbortSignal): Promise<PayloadWriter>;
  /** `sha256:` and the hex digest of the slot's first bytes, read from the medium. */
  digestOf(slot: SlotName, sizeBytes: number, signal: AbortSignal): Promise<string>;
  /** The slot's bytes, read on request. The slot may be running. */
  openBase(slot: SlotName, signal: AbortSignal): Promise<BaseReader>;
  /** True if nothing writes to the image of this slot while it runs. */
  isReadOnly(slot: SlotName, signal: AbortSignal): Promise<boolean>;
  /** Writes the slot's first bytes, read from the medium. The caller finishes the writer. */
  copyInto(writer: PayloadWriter, slot: SlotName, sizeBytes: number, signal: AbortSignal): Promise<void>;
}

/** A board. Boards whose ports are one device are flashed one after the other. */
export interface McuTarget extends InPlace {
  readonly kind: 'mcu';
  readonly port: string;
  /** True if the board has this payload according to its records, and no later write of it was started. */
  holds(digest: string): Promise<boolean>;
}

/** A package of this system. Its scripts may restart the agent that installs it; asked again, it continues. */
export interface PackageTarget extends InPlace {
  readonly kind: 'package';
}

/** A payload is named by the digest with which it was staged. */
interface InPlace {
  readonly name: string;
  /** Keeps the payload in the state directory until it is flashed. `finish` refuses what is not for this target. */
  openFile(opening: PayloadOpening, signal: AbortSignal): Promise<PayloadWriter>;
  /** `sha256:` and the hex digest of the kept payload's first bytes. */
  digestOf(sizeBytes: number, signal: AbortSignal, digest: string): Promise<string>;
  /**
   * Flashes, or installs, the stored payload, to which the evidence must belong. The board's content is backed up
   * first, once for each payload. May be repeated.
   */
  flash(payload: BoardPayload, evidence: Verified, signal: AbortSignal): Promise<void>;
  /** Flashes the board's content from before this payload; does nothing if it was never flashed. May be repeated. */
  restore(payload: BoardPayload, vouch: VouchForKept, signal: AbortSignal): Promise<void>;
  /** Returns whether this payload can be flashed again, and whether the board's backup can be restored. */
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
  /** The name of the target. */
  readonly board: string;
  /** One word: connecting, keeping, writing, … */
  readonly step: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

declare const verified: unique symbol;

/**
 * Invariant 1: evidence that a release, or a stored payload of a board, was verified with a trusted key or permitted by
 * the operator, by its digest. Only update/evidence.ts makes it.
 */
export interface Verified {
  readonly digest: string;
  readonly [verified]: true;
}

/**
 * Makes evidence for a board's backup, from the digest that was stored with it and its digest now. Throws if they
 * differ.
 */
export type VouchForKept = (kept: {
  readonly target: string;
  readonly recorded: string;
  readonly found: string;
}) => Verified;

declare const wholeSlot: unique symbol;

/** Invariant 1: evidence that every partition of a slot has its verified content. Only update/evidence.ts makes it. */
export interface WholeSlot extends Verified {
  readonly slot: SlotName;
  readonly [wholeSlot]: true;
}

/** Decides which slot boots. Each method is one atomic change of the boot environment, and may be repeated. */
export interface Bootloader {
  /** The argument of the reboot command that boots a trial, for example `0 tryboot`. */
  readonly trialRebootArgument: string | undefined;
  /** The slot that runs, according to the bootloader and checked with what is mounted. */
  bootedSlot(signal: AbortSignal): Promise<SlotName>;
  /** True if this boot falls back automatically unless it is committed. The slot of a trial may have no journal. */
  onTrial(signal: AbortSignal): Promise<boolean>;
  /** Changes a harmless variable and reads it back. Throws if the boot environment cannot be written. */
  canary(signal: AbortSignal): Promise<void>;
  /**
   * Invariant 2: makes the slot unbootable until `tryOnce`. Refuses the booted slot unless another one can boot.
   * `lastWord` is the code of an error for the agent in the other slot, if this one cannot write its journal.
   */
  markUnbootable(slot: SlotName, signal: AbortSignal, lastWord?: string): Promise<void>;
  /**
   * Boots this slot next, once. Without `commit`, the bootloader then falls back to the other one automatically. Throws
   * if the evidence belongs to another slot.
   */
  tryOnce(slot: SlotName, evidence: WholeSlot, signal: AbortSignal): Promise<void>;
  /** Invariant 3: the one write that decides. This slot boots from now on; `otherBoots`: an armed other one is its fallback. */
  commit(slot: SlotName, signal: AbortSignal, otherBoots?: boolean): Promise<void>;
  inspect(signal: AbortSignal): Promise<BootState>;
}

export interface BootState {
  /** The slot that boots next if nothing fails. */
  readonly primary: SlotName;
  /** `onTrial` is derived from the boot counters, which power losses run down, too: the environment has no mark yet. */
  readonly trialIsGuessed?: boolean | undefined;
  readonly slots: Readonly<Record<SlotName, SlotBootState>>;
  /** Like `Bootloader.onTrial`, for each slot in case it is the running one. */
  readonly onTrial: Readonly<Record<SlotName, boolean>>;
  /** True if the environment already holds what `commit` of the slot would write, as far as it can be read. */
  readonly committed: Readonly<Record<SlotName, boolean>>;
}

export interface SlotBootState {
  readonly bootable: boolean;
  readonly detail: string;
  /** The exit reason of the agent that abandoned this slot, if the bootloader stores one. */
  readonly lastWord?: string | undefined;
}

export interface Machine {
  /** Changes with every boot of the kernel. */
  bootId(): Promise<string>;
  /** Starts a reboot and returns. The argument is the bootloader's. */
  reboot(argument: string | undefined, signal: AbortSignal): Promise<void>;
}
