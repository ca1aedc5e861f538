import { parsedJson } from '../json-value.ts';
import type { Log } from '../log/log.ts';
import { nodeFs, readTextFile, replaceFileDurably, StorageError } from './durable-file.ts';
import type { DurableFs } from './durable-file.ts';

export interface DurableListDeps<T> {
  readonly path: string;
  readonly fs?: DurableFs | undefined;
  readonly log: Pick<Log, 'error'>;
  /** The name of the list in log lines. */
  readonly title: string;
  readonly empty: () => T;
  /** Reads the content of the file. Returns undefined if it is damaged. */
  readonly parse: (value: unknown) => T | undefined;
}

export interface Loaded<T> {
  /** Empty if there is no file, or a damaged one. */
  readonly content: T;
  readonly from: 'memory' | 'file' | 'damaged file';
}

/**
 * A bounded list in one file of the state directory, replaced as a whole. Changes take turns. A list that cannot be
 * stored never stops its user: that is logged once, until it can be stored again.
 */
export class DurableList<T> {
  readonly #deps: DurableListDeps<T>;
  #content: T | undefined;
  #last: Promise<void> = Promise.resolve();
  #trouble: string | undefined;

  constructor(deps: DurableListDeps<T>) {
    this.#deps = deps;
  }

  /**
   * Changes the list, after the changes before it. `work` returns the new content, which is durable when this resolves,
   * if the disk takes it; and false for a content that may wait for the next change.
   */
  async change(work: (loaded: Loaded<T>) => readonly [content: T, isWritten: boolean]): Promise<void> {
    const turn = this.#last.then(async () => this.#change(work));
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** Returns the content after all changes. Writes nothing, so that a read-only command may call it. */
  async read(): Promise<Loaded<T>> {
    await this.#last;
    return this.#load();
  }

  async #change(work: Parameters<DurableList<T>['change']>[0]): Promise<void> {
    const { path, fs, log, title } = this.#deps;
    try {
      const [content, isWritten] = work(await this.#load());
      this.#content = content;
      if (!isWritten) return;
      await replaceFileDurably(path, JSON.stringify(content), fs);
      this.#trouble = undefined;
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      if (this.#trouble !== error.message) log.error({ code: error.code }, `${title} cannot be kept: ${error.message}`);
      this.#trouble = error.message;
    }
  }

  async #load(): Promise<Loaded<T>> {
    const { path, fs = nodeFs, empty, parse } = this.#deps;
    if (this.#content !== undefined) return { content: this.#content, from: 'memory' };
    const text = await readTextFile(path, fs);
    const content = text === undefined ? empty() : parse(parsedJson(text));
    return content === undefined ? { content: empty(), from: 'damaged file' } : { content, from: 'file' };
  }
}
