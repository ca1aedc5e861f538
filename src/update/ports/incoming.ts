import type {
  BaseReader,
  Checkpoint,
  FirmwareHeader,
  FirmwareSource,
  PayloadHeader,
  PayloadOpening,
  PayloadWriter,
  WrittenPayload,
  BoardProgress,
} from '../ports.ts';

export interface FirmwareRequest {
  readonly source: FirmwareSource;
  /** The provides of the installed release, for `artifact_depends` of the artifact. */
  readonly installedProvides: Readonly<Record<string, string>>;
  /** Called with the name of a signed release as soon as it is verified, also if the release is then rejected. */
  readonly onSignedName?: ((name: string) => void) | undefined;
  /** The checkpoint of an earlier transfer. Throws `checkpoint-stale` (retry), now or later, if it is of no use. */
  readonly resume?: Checkpoint | undefined;
  /** The header before a transfer started over. Throws `firmware-changed` (retry) for another release. */
  readonly expected?: FirmwareHeader | undefined;
  /** Called after the data before the checkpoint was made durable. Absent if no checkpoints are wanted. */
  readonly onCheckpoint?: ((checkpoint: Checkpoint) => Promise<void>) | undefined;
  readonly onProgress: (progress: TransferProgress) => void;
}

/** A release whose header was read, and nothing after it. */
export interface IncomingFirmware extends AsyncDisposable {
  readonly header: FirmwareHeader;
  /**
   * The payloads in the order of the artifact, to be iterated once. Each must be written before the next one is
   * requested. After the last one, the release was read completely, and a list is in effect.
   */
  readonly payloads: AsyncIterable<IncomingPayload>;
}

export interface IncomingPayload extends PayloadOpening {
  /** True if `write` needs a base. */
  readonly isRebuilt: boolean;
  /**
   * Writes the complete payload, and verifies it. Without a base, a delta is only read, and its own bytes are written.
   */
  write(place: PayloadPlace, signal: AbortSignal): Promise<StagedPayload>;
}

export interface PayloadPlace {
  readonly writer: PayloadWriter;
  readonly base?: BaseReader | undefined;
}

export interface TransferProgress {
  /** Bytes of the wire text. */
  readonly receivedBytes: number;
  readonly totalBytes: number | undefined;
}

export interface StagedFirmware {
  readonly header: FirmwareHeader;
  /**
   * `sha256:` and the hex digest of an artifact's manifest, or of the raw image (decompressed). It names the firmware
   * in the quarantine.
   */
  readonly digest: string;
  readonly provides: Readonly<Record<string, string>>;
  readonly payloads: readonly StagedPayload[];
}

export interface StagedPayload {
  readonly header: PayloadHeader;
  readonly written: WrittenPayload;
  /** The digest in a signed manifest, or the operator's permission to install unsigned firmware. */
  readonly promise: { readonly kind: 'manifest'; readonly digest: string } | { readonly kind: 'unsigned-permitted' };
}

/** Turns the encoded text into payloads that are verified while they are written (firmware/). Throws to refuse. */
export type OpenFirmware = (request: FirmwareRequest, signal: AbortSignal) => Promise<IncomingFirmware>;

/** The progress that an operator and `status` can follow. */
export type UpdateProgress =
  | { readonly kind: 'phase'; readonly phase: ProgressPhase; readonly detail?: string | undefined }
  | ({ readonly kind: 'transfer' } & TransferProgress)
  | ({ readonly kind: 'board' } & BoardProgress);

export type ProgressPhase =
  | 'checking'
  | 'staging'
  | 'verifying'
  | 'staged'
  | 'rebooting'
  | 'health'
  | 'flashing'
  | 'committing'
  | 'rolling-back'
  | 'switching'
  | 'done';
