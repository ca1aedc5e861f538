import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { systemdDirectory } from '../../installed-root.ts';

/** A package, as the fake dpkg reads it. */
export interface Deb {
  /** A version named `dead…` starts no agent. */
  readonly version: string;
  readonly scriptFails?: boolean;
}

const changing = ['mv', 'sync', 'ln', 'rm', 'cp', 'mkdir', 'dpkg', 'dpkg-query', 'systemctl', 'sleep'];
const UNIT = 'thing-agent-package-app.service';
const inPhase = (kind: string): string => `{"format":1,"phase":{"kind":"${kind}"}}`;
/** Limit for starts of the installer after a kill. */
const MOST_STARTS = 6;
const PATIENCE_SECONDS = 3;

/** The real systemd/package-guard in a directory, with programs that record its steps and kill it. */
export class GuardMachine implements AsyncDisposable {
  readonly #folder: string;
  readonly #program: string;
  readonly #phaseAfterRequest: string;
  #request = '';
  #isKilled = false;

  private constructor(folder: string, phase: string) {
    this.#folder = folder;
    this.#phaseAfterRequest = phase;
    this.#program = join(folder, 'package-guard');
  }

  /** With this package installed, those kept, and this phase in the journal after the request. */
  static async create(installed: Deb, kept: readonly Deb[], phase = 'trial'): Promise<GuardMachine> {
    const folder = await mkdtemp(join(tmpdir(), 'package-guard-'));
    const machine = new GuardMachine(folder, phase);
    for (const part of ['programs', 'units', 'installed', 'state/packages/app'])
      await mkdir(join(folder, part), { recursive: true });
    for (const name of changing)
      await symlink(join(import.meta.dirname, 'fake-program'), join(folder, 'programs', name));
    await writeFile(machine.#program, await machine.#script());
    await machine.#put({
      agent: 'running',
      uptime: '100 0',
      cut: '0',
      locks: 'none 0',
      'config.toml': '[targets.app]\nkind = "package"\npackage = "app"',
      'state/journal.json': inPhase('trial'),
    });
    for (const part of ['one', 'two', 'setup']) await machine.#put({ [`installed/${part}`]: installed.version });
    await machine.#put({ 'installed/status': 'installed' });
    for (const deb of kept) await writeFile(join(machine.#packages, `${hexOf(deb)}.deb`), bytesOf(deb));
    return machine;
  }

  get #packages(): string {
    return join(this.#folder, 'state/packages/app');
  }

  /** The script with other paths for programs, units and the uptime, otherwise unchanged. */
  async #script(): Promise<string> {
    const exchanges = [
      ['\nPATH=', `\nPATH=${this.#folder}/programs:`],
      ['\nunits=/etc/systemd/system\n', `\nunits=${this.#folder}/units\n`],
      ['</proc/uptime', `<${this.#folder}/uptime`],
      ['/etc/thing-agent/config.toml', `${this.#folder}/config.toml`],
    ] as const;
    let text = await readFile(join(systemdDirectory, 'package-guard'), 'utf8');
    for (const [from, to] of exchanges) {
      if (text.split(from).length !== 2) throw new Error(`the guard does not have ${from.trim()} once`);
      text = text.replace(from, to);
    }
    return text;
  }

  /** The agent asks for an exchange, and both are seen through, with the guard killed at the n-th step. Resolves with the steps. */
  async exchange(want: Deb, otherwise: Deb, killedAt = 0): Promise<readonly string[]> {
    const lines = { id: 'id-1', package: 'app', want: hexOf(want), otherwise: hexOf(otherwise) };
    const limits = { limit: 60, patience: PATIENCE_SECONDS };
    this.#request = Object.entries({ ...lines, ...limits })
      .map(([key, value]) => `${key}=${value}\n`)
      .join('');
    await writeFile(join(this.#packages, 'request'), this.#request);
    await this.#put({ cut: String(killedAt) });
    let isAsked = await this.#ask();
    for (let starts = 0; starts < MOST_STARTS; starts += 1) {
      if (!isAsked && (await this.#agentRuns())) isAsked = await this.#ask();
      // The unit is started again where it failed.
      if (isAsked) isAsked = !(await this.#watch());
      if (!isAsked && !existsSync(join(this.#packages, 'request'))) break;
    }
    if (this.#isKilled !== killedAt > 0) throw new Error(`the guard was ${this.#isKilled ? '' : 'not '}killed`);
    return (await this.#text('steps')).split('\n');
  }

  /** The next calls of dpkg that install this version find its lock taken, and report that with these words. */
  async lock({ version }: Deb, calls: number, words: string): Promise<void> {
    await this.#put({ locks: `${version} ${calls} ${words}` });
  }

  /** Returns the installed version, the report to the agent, and the files that the installer left. */
  async end(): Promise<object> {
    const [status, ...parts] = await Promise.all(['status', 'one', 'two', 'setup'].map((it) => this.#installed(it)));
    const left = ['request', 'result', 'fallback'].filter((name) => existsSync(join(this.#packages, name)));
    const units = (await readdir(join(this.#folder, 'units'))).filter((name) => name === UNIT);
    return {
      status,
      parts: [...new Set(parts)],
      told: await this.#text('told'),
      agent: await this.#text('agent'),
      left: [...left, ...units],
    };
  }

  /** Returns the reason for the failed installation, as reported to the agent. */
  async why(): Promise<string> {
    return this.#text('why');
  }

  /** The unit that a question makes; empty: none. `config`: instead of the one that names the package. */
  async unit(config?: string): Promise<string> {
    if (config !== undefined) await this.#put({ 'config.toml': config });
    await this.#ask();
    return this.#text(`units/${UNIT}`);
  }

  async #agentRuns(): Promise<boolean> {
    return (await this.#text('agent')) === 'running' && !(await this.#installed('one')).startsWith('dead');
  }

  /** Requests an installation as the agent does: repeats a request that disappeared. True if the unit was started. */
  async #ask(): Promise<boolean> {
    if ((await this.#text('state/journal.json')) !== inPhase('trial')) return false;
    const request = join(this.#packages, 'request');
    if (!existsSync(request)) await writeFile(request, this.#request);
    await rm(join(this.#folder, 'unit'), { force: true });
    await this.#run([this.#program, 'answer'], `watch app ${this.#packages}\n`);
    await this.#put({ 'state/journal.json': inPhase(this.#phaseAfterRequest) });
    return existsSync(join(this.#folder, 'unit'));
  }

  /** Watches the unit. True if it ended without being killed. */
  async #watch(): Promise<boolean> {
    const unit = await readFile(join(this.#folder, 'units', UNIT), 'utf8').catch(() => '');
    const [, program = '', folder = ''] = /^ExecStart=\/bin\/sh "(.+)" watch "(.+)"$/m.exec(unit) ?? [];
    return program !== '' && (await this.#run([program, 'watch', folder])) === 0;
  }

  async #run(args: readonly string[], input = ''): Promise<number | null> {
    const start = ['-c', 'echo $$ >"$0/guard.pid"; exec sh "$@"', this.#folder, ...args];
    const child = spawn('sh', start, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    child.stdin.on('error', () => {}).end(input);
    const [exitCode] = (await once(child, 'exit')) as [number | null];
    if (exitCode === null) this.#isKilled = true;
    return exitCode;
  }

  async #put(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [path, text] of Object.entries(files)) await writeFile(join(this.#folder, path), `${text}\n`);
  }

  async #installed(part: string): Promise<string> {
    return this.#text(`installed/${part}`);
  }

  async #text(path: string): Promise<string> {
    return (await readFile(join(this.#folder, path), 'utf8').catch(() => '')).trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function bytesOf({ version, scriptFails = false }: Deb): string {
  return `Package: app\nVersion: ${version}\nScript: ${scriptFails ? 'fails' : 'ends'}\n`;
}

function hexOf(deb: Deb): string {
  return createHash('sha256').update(bytesOf(deb)).digest('hex');
}
