import { parseToml } from './toml.ts';

/** A key of the text with its line (counted from 1), and the keys below it. The items of an array are `0`, `1`, … */
export interface KeyNode {
  line: number | undefined;
  /** True for an array made by `[[…]]`: a path through it means its last item. */
  isTableArray: boolean;
  readonly children: Map<string, KeyNode>;
}

/** The lines of all keys of a TOML 1.1 text that a parser has accepted. */
export function locateKeys(text: string): KeyNode {
  const scanner = new TomlScanner(text);
  const root = newNode(undefined);
  let table = root;
  while (scanner.skipBlank()) {
    if (scanner.take('[[')) table = openTableArrayItem(root, scanner);
    else if (scanner.take('[')) table = openTable(root, scanner);
    else readPair(table, scanner);
  }
  return root;
}

/** Returns the line of a key, or of the nearest parent key in the text, or undefined if the text has none of them. */
export function lineOf(root: KeyNode, path: readonly PropertyKey[]): number | undefined {
  let node = root;
  let line: number | undefined;
  for (const key of path) {
    const child = node.children.get(String(key));
    if (child === undefined) break;
    node = child;
    line = child.line ?? line;
  }
  return line;
}

function newNode(line: number | undefined): KeyNode {
  return { line, isTableArray: false, children: new Map() };
}

function openTable(root: KeyNode, scanner: TomlScanner): KeyNode {
  const line = scanner.line;
  const node = descend(root, scanner.readKey(), line);
  node.line = line;
  scanner.take(']');
  return node;
}

function openTableArrayItem(root: KeyNode, scanner: TomlScanner): KeyNode {
  const line = scanner.line;
  const path = scanner.readKey();
  scanner.take(']]');
  const parent = descend(root, path.slice(0, -1), line);
  const array = child(parent, path.at(-1) ?? '', line);
  array.isTableArray = true;
  return child(array, String(array.children.size), line);
}

function readPair(table: KeyNode, scanner: TomlScanner): void {
  const line = scanner.line;
  const node = descend(table, scanner.readKey(), line);
  if (scanner.take('=')) readValue(node, scanner);
}

function readValue(node: KeyNode, scanner: TomlScanner): void {
  if (scanner.take('{')) readInlineTable(node, scanner);
  else if (scanner.take('[')) readArray(node, scanner);
  else scanner.skipScalar();
}

function readInlineTable(node: KeyNode, scanner: TomlScanner): void {
  while (scanner.skipBlank() && !scanner.take('}')) {
    if (!scanner.take(',')) readPair(node, scanner);
  }
}

function readArray(node: KeyNode, scanner: TomlScanner): void {
  while (scanner.skipBlank() && !scanner.take(']')) {
    if (!scanner.take(',')) readValue(child(node, String(node.children.size), scanner.line), scanner);
  }
}

function descend(from: KeyNode, path: readonly string[], line: number): KeyNode {
  let node = from;
  for (const key of path) {
    node = child(node, key, line);
    const last = node.isTableArray ? node.children.get(String(node.children.size - 1)) : undefined;
    node = last ?? node;
  }
  return node;
}

function child(node: KeyNode, key: string, line: number): KeyNode {
  const known = node.children.get(key);
  if (known !== undefined) return known;
  const created = newNode(line);
  node.children.set(key, created);
  return created;
}

const blank = /(?:[ \t\r\n]|#[^\n]*)*/y;
const space = /[ \t]*/y;
const bareKey = /[A-Za-z0-9_-]+/y;
const bareValue = /[^,\]}\n#]*/y;
const quoted = /"(?:[^"\\\n]|\\.)*"|'[^'\n]*'/y;
const multiLine = /"""(?:[^"\\]|\\[^]|"{1,2}(?!"))*"{3,5}|'''(?:[^']|'{1,2}(?!'))*'{3,5}/y;

/** Scans the tokens of a TOML text and counts its lines. Every step except `take` always moves forward. */
class TomlScanner {
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
