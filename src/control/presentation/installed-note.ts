/** Reasons that add nothing to `installed`. */
const plain = new Set(['', 'installed', 'went back to what was installed before']);

/** What the reason of a successful attempt adds, for example what was not verified. Most add nothing. */
export function installedNote(reason: string | undefined): readonly string[] {
  return reason === undefined || plain.has(reason) ? [] : [reason];
}
