/** A word as it is typed for a shell. */
export function shellWord(text: string): string {
  return /^[\w./+:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
