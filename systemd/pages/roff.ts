/** Pages for man(1), in the macros of man(7) that groff and mandoc both know. */

/** Text as it is to be read: no character of it is taken for a macro or an escape. */
export function plain(text: string): string {
  const escaped = text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('^', '\\(ha').replaceAll('~', '\\(ti');
  const ascii = Array.from(escaped, (char) => (char > '~' ? unicode(char) : char)).join('');
  return ascii.replaceAll('`', '\\(ga').replaceAll("'", '\\(aq');
}

function unicode(char: string): string {
  return `\\[u${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`;
}

/** A line of its own, which no dot makes a macro. */
export function line(text: string): string {
  const escaped = plain(text);
  return `${escaped.startsWith('.') ? '\\&' : ''}${escaped}\n`;
}

export function paragraph(text: string): string {
  return `.PP\n${line(text)}`;
}

export function section(title: string, ...content: readonly string[]): string {
  return `.SH ${quoted(title.toUpperCase())}\n${content.join('')}`;
}

export function subsection(title: string, ...content: readonly string[]): string {
  return `.SS ${quoted(title)}\n${content.join('')}`;
}

/** A term in bold, and its meaning. */
export function entry(term: string, ...meaning: readonly string[]): string {
  return `.TP\n.B ${quoted(term)}\n${meaning.map(line).join('.br\n')}`;
}

/** One argument of a macro. */
function quoted(text: string): string {
  return `"${plain(text).replaceAll('"', '\\(dq')}"`;
}

export interface PageHead {
  readonly name: string;
  readonly manual: 5 | 8;
  readonly version: string;
  /** In seconds since 1970. */
  readonly builtAt: number;
}

export function pageHead({ name, manual, version, builtAt }: PageHead): string {
  const date = new Date(builtAt * 1000).toISOString().slice(0, 10);
  return `.TH ${quoted(name)} ${manual} ${date} ${quoted(`Thing Agent ${version}`)}\n`;
}
