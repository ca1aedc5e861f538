/** Returns the text after a label, on one line. */
export function rowOf(label: string, text: string): string {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`${label} `));
  if (start < 0) return '';
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => !line.startsWith(' '));
  return [lines[start]?.slice(label.length), ...rest.slice(0, end)].map((line) => line?.trim()).join(' ');
}
