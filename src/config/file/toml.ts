import { parse, stringify, TomlError } from 'smol-toml';

/** The text is not TOML. The message contains nothing of the text, which may hold secrets. */
export class TomlSyntaxError extends Error {
  override readonly name = 'TomlSyntaxError';
  readonly line: number;
  readonly column: number;

  constructor(message: string, line: number, column: number) {
    super(message);
    this.line = line;
    this.column = column;
  }
}

/** Parses TOML 1.1. Throws TomlSyntaxError. */
export function parseToml(text: string): Record<string, unknown> {
  try {
    return parse(text, { unsafeKeyBehaviour: 'throw' });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [firstLine = ''] = error.message.split('\n', 1);
    const said = firstLine.replace(/^Invalid TOML document: /, '');
    // The parser reports the end of a line in an unclosed string as a control character.
    const meant = said.includes('control characters') ? `${said}; is the quote that ends one missing?` : said;
    const advice = said.includes('losslessly') ? '; write a number beyond 2^53 with .0 at its end' : '';
    const unquoted = said === 'invalid value' ? '; a text needs quotes' : '';
    throw new TomlSyntaxError(meant + advice + unquoted, error.line, error.column);
  }
}

/** Writes TOML. Undefined values are left out. */
export function writeToml(value: Readonly<Record<string, unknown>>): string {
  return stringify(value);
}
