import { parseToml } from './toml.ts';

const blank = /(?:[ \t\r\n]|#[^\n]*)*/y;
const space = /[ \t]*/y;
const bareKey = /[A-Za-z0-9_-]+/y;
const bareValue = /[^,\]}\n#]*/y;
const quoted = /"(?:[^"\\\n]|\\.)*"|'[^'\n]*'/y;
const multiLine = /"""(?:[^"\\]|\\[^]|"{1,2}(?!"))*"{3,5}|'''(?:[^']|'{1,2}(?!'))*'{3,5}/y;

/** Scans the tokens of a TOML text and counts its lines. Every step except `take` always moves forward. */
export class TomlScanner {
  readonly #text: string;
  #position = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
  }

  /** Counted from 1. */
  get line(): number {
    return this.#line;
  }

  /** Skips white space, line ends and comments. False at the end of the text. */
  skipBlank(): boolean {
    this.#match(blank);
    return this.#position < this.#text.length;
  }

  /** Steps over `token` and the spaces around it, if it comes next. Returns whether it did. */
  take(token: string): boolean {
    this.#match(space);
    if (!this.#text.startsWith(token, this.#position)) return false;
    this.#advance(token.length);
    this.#match(space);
    return true;
  }

  /** Reads a key such as `a."b.c".d`. */
  readKey(): readonly string[] {
    const path: string[] = [];
    do {
      path.push(this.#match(bareKey) ?? this.#quotedKey() ?? this.#anything());
    } while (this.take('.'));
    return path;
  }

  /** Skips a text, number, truth value or date. */
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

  /** Returns the match of the pattern at this position, or undefined. */
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
