import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export function sha(text: string | Buffer): string {
  return createHash('sha256').update(text).digest('hex');
}

/** The files that each file can reach by imports, and by the names of files in strings (threads, data). */
export class Dependencies {
  readonly #root: string;
  readonly #paths: ReadonlySet<string>;
  readonly #files = new Map<string, { readonly hash: string; readonly named: readonly string[] }>();

  constructor(root: string, paths: Iterable<string>) {
    this.#root = root;
    this.#paths = new Set(paths);
  }

  /** Returns a key of the file's content and of all that it can reach. It changes when one of these files changes. */
  keyOf(path: string): string {
    const reached = new Set([path]);
    for (const each of reached) for (const named of this.#file(each).named) reached.add(named);
    return sha(
      [...reached]
        .toSorted()
        .map((each) => `${each} ${this.#file(each).hash}\n`)
        .join(''),
    );
  }

  /** Returns a key of the file's own content. */
  contentOf(path: string): string {
    return this.#file(path).hash;
  }

  #file(path: string) {
    const known = this.#files.get(path);
    if (known !== undefined) return known;
    const text = readFileSync(join(this.#root, path));
    const names = path.endsWith('.ts') ? [...text.toString('utf8').matchAll(/['"`]([\w./-]+\.[a-z]+)['"`]/g)] : [];
    const candidates = names.map(([, name = '']) => join(dirname(path), name));
    const file = { hash: sha(text), named: candidates.filter((named) => this.#paths.has(named)) };
    this.#files.set(path, file);
    return file;
  }
}
