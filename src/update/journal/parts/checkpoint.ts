// The checkpoint of an interrupted transfer. Other rooms take these types from ports.ts.

/** A place in the wire text where a transfer may continue, and how to recognize the same text. */
export interface WirePosition {
  readonly offset: number;
  /** A strong validator (ETag) of the text. Without one, a transfer cannot continue after a restart. */
  readonly validator: string;
  /** The length of the whole text in bytes. */
  readonly totalBytes: number;
}

/** Where a transfer may continue after a restart. It is made durable only after the data that it describes. */
export interface Checkpoint {
  readonly wire: WirePosition;
  /** The state of the text decoder at that place. */
  readonly encoding: 'base64' | 'base64url' | 'hex';
  readonly carry: string;
  /** What the target of the current payload holds up to that place. */
  readonly image: WrittenPrefix;
  /** Undefined: a raw image. */
  readonly artifact?: ArtifactPlace | undefined;
}

/**
 * Promise `resume`: a place in the content of a payload's file. It is not trusted: if something in it is wrong, the
 * transfer starts over.
 */
export interface ArtifactPlace {
  /** The part before the payloads, as it was signed. It is verified each time it is read. */
  readonly head: string;
  /** NNNN of `data/NNNN.tar`. */
  readonly payload: number;
  /** The size of that member, and how much of it is still to come. */
  readonly member: { readonly sizeBytes: number; readonly leftBytes: number };
  readonly file: { readonly name: string; readonly sizeBytes: number };
  /**
   * If the file is a delta: the bytes of it before this place, and the distance from here to the end of the last
   * rebuilt window.
   */
  readonly delta?: { readonly takenBytes: number; readonly skipBytes: number } | undefined;
  /** The files that were staged completely, in their order. */
  readonly whole: readonly { readonly payload: number; readonly name: string; readonly sizeBytes: number }[];
}

export interface WrittenPrefix {
  readonly sizeBytes: number;
  readonly digest: string;
}
