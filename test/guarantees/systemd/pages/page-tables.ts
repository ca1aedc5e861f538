/** The first cells of each row of the tables of a page that are one code: `| \`name\` | …`. */
export function codesInTables(page: string): readonly string[] {
  return [...page.matchAll(/^\| `(?<code>[^`]+)` \|/gm)].map(({ groups }) => groups?.['code'] ?? '');
}

/** The rows of the table with this head, as lists of cells, without backticks around a whole cell. */
export function rowsOf(page: string, head: string): readonly (readonly string[])[] {
  const [, after] = page.split(`\n${head}\n`);
  if (after === undefined) throw new Error(`the page has no table ${head}`);
  const [table = ''] = after.split('\n\n');
  return table
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .slice(2, -2)
        .split(' | ')
        .map((cell) => cell.replace(/^`([^`]*)`$/, '$1')),
    );
}
