import fc from 'fast-check';

/** A TOML document, its meaning, and the line of each key. */
export interface WrittenToml {
  readonly text: string;
  readonly value: TomlTable;
  readonly lines: readonly { readonly path: readonly (string | number)[]; readonly line: number }[];
}

export type TomlValue = string | number | boolean | readonly TomlValue[] | TomlTable;
export interface TomlTable {
  readonly [key: string]: TomlValue;
}

const key = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_-]{1,6}$/),
  fc.string({ unit: fc.constantFrom('a', '.', ' ', '"', '\\', "'", '#', '=', ']', 'é'), minLength: 1, maxLength: 4 }),
);
const scalar = fc.oneof(
  fc.string({ unit: fc.constantFrom('a', '"', "'", '\\', '\n', '#', '[', '}', ',', ' '), maxLength: 8 }),
  fc.integer({ min: -99, max: 99 }),
  fc.boolean(),
);

const { table } = fc.letrec<{ value: TomlValue; table: TomlTable }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    tie('table'),
    fc.array(tie('table'), { minLength: 1, maxLength: 3 }),
  ),
  table: fc.dictionary(key, tie('value'), { maxKeys: 4, noNullPrototype: true }),
}));

/** Any document, in any of the ways in which TOML lets it be written. */
export const writtenToml: fc.Arbitrary<WrittenToml> = fc
  .tuple(table, fc.array(fc.nat(), { minLength: 1, maxLength: 40 }))
  .map(([value, choices]) => new TomlWriter(choices).write(value));

/** Writes a value in a style that a list of numbers chooses, and notes the lines. */
class TomlWriter {
  readonly #choices: readonly number[];
  #chosen = 0;
  #text = '';
  readonly #lines: { path: readonly (string | number)[]; line: number }[] = [];

  constructor(choices: readonly number[]) {
    this.#choices = choices;
  }

  write(value: TomlTable): WrittenToml {
    this.#body([], value);
    return { text: this.#text, value, lines: this.#lines };
  }

  #choose<T>(options: readonly T[]): T {
    const choice = this.#choices[this.#chosen % this.#choices.length] ?? 0;
    this.#chosen += 1;
    return options[choice % options.length] as T;
  }

  #note(path: readonly (string | number)[]): void {
    this.#lines.push({ path, line: this.#text.split('\n').length });
  }

  #filler(): void {
    this.#text += this.#choose(['', '', '\n', '# comment = "not a key"\n', ' \t', '\r\n']);
  }

  /** Pairs first, then what has a header. */
  #body(path: readonly (string | number)[], value: TomlTable): void {
    const withHeader: [string, TomlValue][] = [];
    for (const [name, item] of Object.entries(value)) {
      if (canHaveHeader(item) && this.#choose([true, true, false])) withHeader.push([name, item]);
      else this.#pair(path, name, item);
    }
    for (const [name, item] of withHeader) this.#section([...path, name], item);
  }

  #section(path: readonly (string | number)[], item: TomlValue): void {
    const header = path.filter((part) => typeof part === 'string').map(quoteKey);
    const space = this.#choose(['', ' ']);
    const name = header.join(`${space}.${space}`);
    if (!Array.isArray(item)) {
      this.#filler();
      this.#note(path);
      this.#text += `[${space}${name}${space}]${this.#choose(['\n', ' # x\n', '\r\n'])}`;
      this.#body(path, item as TomlTable);
      return;
    }
    for (const [index, element] of (item as readonly TomlTable[]).entries()) {
      this.#filler();
      this.#note([...path, index]);
      this.#text += `[[${space}${name}${space}]]\n`;
      this.#body([...path, index], element);
    }
  }

  #pair(path: readonly (string | number)[], name: string, item: TomlValue): void {
    this.#filler();
    this.#key([...path, name], quoteKey(name), item);
    this.#text += this.#choose(['\n', ' # a "comment\n', '\r\n']);
  }

  #key(path: readonly (string | number)[], written: string, item: TomlValue): void {
    this.#note(path);
    if (isTable(item) && Object.keys(item).length === 1 && this.#choose([true, false])) {
      const [[name, inner] = ['', 0]] = Object.entries(item);
      this.#key([...path, name], `${written}${this.#choose(['.', ' . '])}${quoteKey(name)}`, inner);
      return;
    }
    this.#text += `${written}${this.#choose([' = ', '=', '\t='])}`;
    this.#value(path, item);
  }

  #value(path: readonly (string | number)[], item: TomlValue): void {
    if (isTable(item)) this.#inlineTable(path, item);
    else if (Array.isArray(item)) this.#array(path, item as readonly TomlValue[]);
    else this.#text += typeof item === 'string' ? this.#string(item) : JSON.stringify(item);
  }

  #inlineTable(path: readonly (string | number)[], value: TomlTable): void {
    this.#text += '{';
    for (const [index, [name, item]] of Object.entries(value).entries()) {
      if (index > 0) this.#text += ',';
      this.#text += this.#choose(['', ' ', '\n', ' # }\n']);
      this.#key([...path, name], quoteKey(name), item);
    }
    this.#text += this.#choose(['}', ' }', '\n}']);
  }

  #array(path: readonly (string | number)[], items: readonly TomlValue[]): void {
    this.#text += '[';
    for (const [index, item] of items.entries()) {
      if (index > 0) this.#text += ',';
      this.#text += this.#choose(['', ' ', '\n', ' # ]\n']);
      this.#note([...path, index]);
      this.#value([...path, index], item);
    }
    this.#text += items.length > 0 ? this.#choose([']', ',]', '\n]']) : ']';
  }

  #string(value: string): string {
    const options = [JSON.stringify(value)];
    if (!/['\n]/.test(value)) options.push(`'${value}'`);
    if (!value.includes("'''") && !value.endsWith("'")) options.push(`'''\n${value}'''`);
    const plain = !/\\|"""|"$/.test(value);
    if (plain) options.push(`"""\n${value}"""`);
    if (plain && value === value.trimStart()) options.push(`"""\\\n   ${value}"""`);
    return this.#choose(options);
  }
}

function quoteKey(name: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(name)) return name;
  return name.includes("'") || name.length % 2 === 0 ? JSON.stringify(name) : `'${name}'`;
}

function isTable(item: TomlValue): item is TomlTable {
  return typeof item === 'object' && !Array.isArray(item);
}

function canHaveHeader(item: TomlValue): boolean {
  if (!Array.isArray(item)) return isTable(item);
  const items = item as readonly TomlValue[];
  return items.length > 0 && items.every(isTable);
}
