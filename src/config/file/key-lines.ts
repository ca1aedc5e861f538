import { TomlScanner } from './toml-scanner.ts';

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
