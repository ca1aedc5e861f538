import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import { readTextFile, replaceFileDurably } from '../system/files/durable-file.ts';
import type { Clock } from '../system/time/clock.ts';
import { PackageError } from './errors.ts';
import type { InstallerClient } from './installer-client.ts';
import { ABSENT, hexOf } from './package-store.ts';
import type { PackageStore } from './package-store.ts';

/**
 * The package to install, and the one to install instead if that fails: digests, or `absent`. Undefined if no package
 * was saved.
 */
export interface PackageReplacement {
  readonly package: string;
  readonly want: string;
  readonly otherwise: string | undefined;
  readonly isRestore?: boolean;
}

/**
 * `refused`: dpkg did not accept the package; `put-back`: no agent judged it. In both cases the alternative is
 * installed.
 */
export interface ExchangeResult {
  readonly word: 'installed' | 'refused' | 'put-back' | 'broken';
  readonly why: string;
}

export interface GuardDeps {
  readonly store: Pick<PackageStore, 'directory' | 'fs'>;
  readonly installMs: number;
  /** The installer restores a package if the journal does not change for this time while the package is on trial. */
  readonly gracePeriodMs: number;
  readonly clock: Clock;
  readonly ask: InstallerClient;
}

const POLL_MS = 500;
/** The guard is started again after this time, since it may have been killed. */
const START_AGAIN_MS = 10_000;
/** dpkg may run twice; the margin is for everything else. */
const EXCHANGES = 2;
const MARGIN_MS = 300_000;
const ASK_MS = 60_000;

/** The agent's side of systemd/package-guard: it uses files in the guard's folder, and the guard's socket. */
export class PackageInstaller {
  readonly #options: GuardDeps;

  constructor(options: GuardDeps) {
    this.#options = options;
  }

  /** Packs the installed package again. Returns its digest, or `absent`, and its version. Throws `package-backup-failed`. */
  async keep(name: string, signal: AbortSignal): Promise<{ readonly digest: string; readonly version: string }> {
    const { store, installMs, ask } = this.#options;
    const { directory, fs } = store;
    await fs.rm(join(directory, 'kept'), { force: true });
    await ask(`keep ${name} ${directory}`, installMs, signal);
    const [digest = '-', ...rest] = (await this.#text('kept'))?.split(' ') ?? ['-', 'the guard did not say why'];
    const version = rest.join(' ');
    if (digest === '-') throw new PackageError('package-backup-failed', version);
    return { digest: digestFrom(digest), version };
  }

  /** Returns the last replacement and its result, or undefined if none was started, or it has not ended. */
  async last(): Promise<(ExchangeResult & Pick<PackageReplacement, 'want' | 'otherwise'>) | undefined> {
    const request = await this.#request();
    const result = request && (await this.#result(request.id));
    return request && result && { ...request, ...result };
  }

  /** True if the last request was for this package, whether it has ended or not. */
  async isAskedFor(want: string): Promise<boolean> {
    return (await this.#request())?.want === want;
  }

  /** True if the last request has not ended. */
  async isRunning(): Promise<boolean> {
    return (await this.#request()) !== undefined && (await this.last()) === undefined;
  }

  /**
   * Forgets an exchange of an earlier update. If it has not ended, since the journal of that update was lost, the
   * installer first restores the previous package.
   */
  async clear(name: string, signal: AbortSignal): Promise<void> {
    const request = await this.#request();
    if (request !== undefined && (await this.#result(request.id)) === undefined)
      await this.exchange({ package: name, want: request.want, otherwise: request.otherwise }, () => {}, signal);
    const { directory, fs } = this.#options.store;
    for (const name of ['request', 'result', 'fallback']) await fs.rm(join(directory, name), { force: true });
  }

  /**
   * Requests a replacement, and waits for its result. The installer does it once, however often it is requested: the
   * agent may be killed while it waits, and then requests it again. A replacement whose result is `broken` is done again, and so
   * is a restore that failed: another dpkg or a full disk may have been the reason.
   */
  async exchange(exchange: PackageReplacement, onWait: () => void, signal: AbortSignal): Promise<ExchangeResult> {
    const { clock, installMs } = this.#options;
    const id = (await this.#idOf(exchange)) ?? randomUUID();
    if ((await this.#request())?.id !== id) await this.#ask(exchange, id);
    const endMs = clock.monotonicMs() + EXCHANGES * installMs + MARGIN_MS;
    let startMs = clock.monotonicMs();
    while (clock.monotonicMs() < endMs) {
      const result = await this.#result(id);
      if (result !== undefined) return result;
      if (clock.monotonicMs() >= startMs) {
        // A guard that was just finishing an earlier update may have removed the request with that.
        if ((await this.#request())?.id !== id) await this.#ask(exchange, id);
        // An installer that is already running will find the request.
        await this.#options.ask(`watch ${exchange.package} ${this.#options.store.directory}`, ASK_MS, signal);
        onWait();
        startMs = clock.monotonicMs() + START_AGAIN_MS;
      }
      await clock.sleep(POLL_MS, signal);
    }
    throw new PackageError(
      'package-installer-unavailable',
      `${exchange.package}: no end of its installation was heard of`,
    );
  }

  /** Returns the id of the last request, if it was for this replacement and need not be made again. */
  async #idOf({ want, otherwise, isRestore = false }: PackageReplacement): Promise<string | undefined> {
    const asked = await this.#request();
    if (asked?.want !== want || asked.otherwise !== otherwise) return undefined;
    const word = (await this.#result(asked.id))?.word ?? 'installed';
    return word === 'broken' || (isRestore && word !== 'installed') ? undefined : asked.id;
  }

  async #ask({ package: name, want, otherwise }: PackageReplacement, id: string): Promise<void> {
    const { store, installMs, gracePeriodMs } = this.#options;
    const lines = {
      id,
      package: name,
      want: hexOf(want),
      otherwise: otherwise === undefined ? 'none' : hexOf(otherwise),
      limit: Math.ceil(installMs / 1000),
      patience: Math.ceil(gracePeriodMs / 1000),
    };
    const text = Object.entries(lines).map(([key, value]) => `${key}=${value}\n`);
    await replaceFileDurably(join(store.directory, 'request'), text.join(''), store.fs);
  }

  async #request() {
    const text = await this.#text('request');
    const fields = new Map(
      text?.split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    );
    const [id, want, otherwise] = [fields.get('id'), fields.get('want'), fields.get('otherwise')];
    if (id === undefined || want === undefined || otherwise === undefined) return undefined;
    return { id, want: digestFrom(want), otherwise: otherwise === 'none' ? undefined : digestFrom(otherwise) };
  }

  async #result(id: string): Promise<ExchangeResult | undefined> {
    const [ofId, word, ...why] = (await this.#text('result'))?.split(' ') ?? [];
    if (ofId !== id || !isWord(word)) return undefined;
    return { word, why: why.join(' ') };
  }

  async #text(name: string): Promise<string | undefined> {
    const { directory, fs } = this.#options.store;
    return (await readTextFile(join(directory, name), fs))?.trim();
  }
}

function digestFrom(word: string): string {
  return word === ABSENT ? ABSENT : `sha256:${word}`;
}

function isWord(word: string | undefined): word is ExchangeResult['word'] {
  return word === 'installed' || word === 'refused' || word === 'put-back' || word === 'broken';
}
