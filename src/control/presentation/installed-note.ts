const OLD_ROLLBACK = 'went back to what was installed before'; // language-ok: older records

/** Reasons that add nothing to `installed`. */
const plain = new Set(['', 'installed', 'rolled back to the previous version', OLD_ROLLBACK]);

/** Returns what the reason of a successful attempt adds, for example a missing verification. Most add nothing. */
export function installedNote(reason: string | undefined): readonly string[] {
  return reason === undefined || plain.has(reason) ? [] : [reason];
}
