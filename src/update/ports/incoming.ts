import type {
  BaseReader,
  Checkpoint,
  FirmwareHeader,
  FirmwareSource,
  PayloadHeader,
  PayloadOpening,
  PayloadWriter,
  WrittenPayload,
} from '../ports.ts';

export interface FirmwareRequest {
  readonly source: FirmwareSource;
  /** What is installed provides, for the artifact's `artifact_depends`. */
  readonly installedProvides: Readonly<Record<string, string>>;
  /** As far as an earlier transfer came; `checkpoint-stale` (retry) is thrown, now or later, where that is of no use. */
  readonly resume?: Checkpoint | undefined;
  /** What was opened before a transfer started over: another firmware is `firmware-changed` (retry). */
  readonly expected?: FirmwareHeader | undefined;
  /** Called after the data before it was made durable. Undefined: none are wanted. */
  readonly onCheckpoint?: ((checkpoint: Checkpoint) => Promise<void>) | undefined;
  readonly onProgress: (progress: TransferProgress) => void;
}

/** A firmware of which the header was read, and nothing behind it. */
export interface IncomingFirmware extends AsyncDisposable {
  readonly header: FirmwareHeader;
  /**
   * In the order of the artifact: each is written before the next one is asked for. Read once; behind the last one the firmware was
   * read to its end, and a list is in effect.
   */
  readonly payloads: AsyncIterable<IncomingPayload>;
}

export interface IncomingPayload extends PayloadOpening {
  /** `write` needs a base. */
  readonly isRebuilt: boolean;
  /** From its first byte to its end, and judges it. Without a base, a delta is only read, and its own bytes are written. */
  write(place: PayloadPlace, signal: AbortSignal): Promise<StagedPayload>;
}

export interface PayloadPlace {
  readonly writer: PayloadWriter;
  readonly base?: BaseReader | undefined;
}

export interface TransferProgress {
  /** Of the wire text. */
  readonly receivedBytes: number;
  readonly totalBytes: number | undefined;
}

export interface StagedFirmware {
  readonly header: FirmwareHeader;
  /** `sha256:` and hex: of an artifact's manifest, or of the raw image (decompressed). Names it in the quarantine. */
  readonly digest: string;
  readonly provides: Readonly<Record<string, string>>;
  readonly payloads: readonly StagedPayload[];
}

export interface StagedPayload {
  readonly header: PayloadHeader;
  readonly written: WrittenPayload;
  /** The digest that a signed manifest promises, or the operator's word that unsigned firmware may be installed. */
  readonly promise: { readonly kind: 'manifest'; readonly digest: string } | { readonly kind: 'unsigned-permitted' };
}

/** From the encoded text to payloads that are verified as they are written (firmware/). Throws to refuse. */
export type OpenFirmware = (request: FirmwareRequest, signal: AbortSignal) => Promise<IncomingFirmware>;
