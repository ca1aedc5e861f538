/** What goes without saying. */
const plain = new Set(['', 'installed', 'went back to what was installed before']);

/** What the reason of an attempt that ended well says beside that, such as what was not verified; nothing in most cases. */
export function installedNote(reason: string | undefined): readonly string[] {
  return reason === undefined || plain.has(reason) ? [] : [reason];
}
