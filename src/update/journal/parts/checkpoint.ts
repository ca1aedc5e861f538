// Where an interrupted transfer goes on. Other rooms take these types from ports.ts.

/** Where in the wire text a transfer may go on, and how to know that it is still the same text. */
export interface WirePosition {
  readonly offset: number;
  /** A strong validator (ETag) of the text; without one a transfer cannot go on after a restart. */
  readonly validator: string;
  /** Length of the whole text in bytes. */
  readonly totalBytes: number;
}

/** Where a firmware may go on after a restart. Durable only after the data that it speaks of. */
export interface Checkpoint {
  readonly wire: WirePosition;
  /** State of the text decoder at that place. */
  readonly encoding: 'base64' | 'base64url' | 'hex';
  readonly carry: string;
  /** What the place of the payload that was under way holds up to there. */
  readonly image: WrittenPrefix;
  /** Undefined: a raw image. */
  readonly artifact?: ArtifactPlace | undefined;
}

/** A place in the content of a payload's file. Nothing of it is believed: what is wrong in it makes the transfer start over. */
export interface ArtifactPlace {
  /** What stands before the payloads, as it was signed; verified again each time that it is read. */
  readonly head: string;
  /** NNNN of `data/NNNN.tar`. */
  readonly payload: number;
  /** That member of the artifact, and how much of it is still to come. */
  readonly member: { readonly sizeBytes: number; readonly leftBytes: number };
  readonly file: { readonly name: string; readonly sizeBytes: number };
  /** The file is a delta: so much of it came before this place, and the window that was rebuilt last ends so far behind it. */
  readonly delta?: { readonly takenBytes: number; readonly skipBytes: number } | undefined;
  /** Files that were staged whole, in their order. */
  readonly whole: readonly { readonly payload: number; readonly name: string; readonly sizeBytes: number }[];
}

export interface WrittenPrefix {
  readonly sizeBytes: number;
  readonly digest: string;
}
