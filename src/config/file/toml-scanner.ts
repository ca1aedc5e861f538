import { parseToml } from './toml.ts';

const blank = /(?:[ \t\r\n]|#[^\n]*)*/y;
const space = /[ \t]*/y;
const bareKey = /[A-Za-z0-9_-]+/y;
const bareValue = /[^,\]}\n#]*/y;
const quoted = /"(?:[^"\\\n]|\\.)*"|'[^'\n]*'/y;
const multiLine = /"""(?:[^"\\]|\\[^]|"{1,2}(?!"))*"{3,5}|'''(?:[^']|'{1,2}(?!'))*'{3,5}/y;

/** Steps through the tokens of a TOML text and knows on which line it stands. Each step but `take` moves on. */
export class TomlScanner {
  readonly #text: string;
  #position = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
  }

  /** From 1. */
  get line(): number {
    return this.#line;
  }

  /** Skips white space, line ends and comments; false at the end of the text. */
  skipBlank(): boolean {
    this.#match(blank);
    return this.#position < this.#text.length;
  }

  /** Steps over `token` and the spaces before and after it, if it comes next. */
  take(token: string): boolean {
    this.#match(space);
    if (!this.#text.startsWith(token, this.#position)) return false;
    this.#advance(token.length);
    this.#match(space);
    return true;
  }

  /** `a."b.c".d`, decoded. */
  readKey(): readonly string[] {
    const path: string[] = [];
    do {
      path.push(this.#match(bareKey) ?? this.#quotedKey() ?? this.#anything());
    } while (this.take('.'));
    return path;
  }

  /** A text, number, truth value or date. */
  skipScalar(): void {
    if (this.#match(multiLine) !== undefined || this.#match(quoted) !== undefined) return;
    if (this.#match(bareValue) === undefined) this.#anything();
  }

  #quotedKey(): string | undefined {
    const token = this.#match(quoted);
    return token === undefined ? undefined : String(parseToml(`key = ${token}`)['key']);
  }

  #anything(): string {
    const character = this.#text.charAt(this.#position);
    this.#advance(1);
    return character;
  }

  /** What the pattern finds here, if it is not empty. */
  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#position;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    if (found === '') return undefined;
    this.#advance(found.length);
    return found;
  }

  #advance(length: number): void {
    const passed = this.#text.slice(this.#position, this.#position + length);
    for (let at = passed.indexOf('\n'); at !== -1; at = passed.indexOf('\n', at + 1)) this.#line += 1;
    this.#position += passed.length;
  }
}
