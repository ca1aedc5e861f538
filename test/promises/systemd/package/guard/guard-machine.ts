import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { seededRandom } from '../../../../stand-ins/machine/power.ts';
import { systemdDirectory } from '../../installed-root.ts';

/** At the n-th step: everything ends, and what was not made durable is there or not; or the guard alone is killed. */
export interface Cut {
  readonly at: number;
  readonly how: 'power' | 'kill';
  readonly seed: number;
}

/** A package, as the fake dpkg reads it. */
export interface Deb {
  /** That of a version `dead…` starts no agent. */
  readonly version: string;
  readonly scriptFails?: boolean;
}

const changing = ['mv', 'sync', 'ln', 'rm', 'cp', 'mkdir', 'dpkg', 'dpkg-query', 'systemctl', 'sleep'];
const UNIT = 'thing-agent-package-app.service';
const ON_TRIAL = '{"format":1,"phase":{"kind":"trial"}}';
/** Of the guard, after a cut. */
const MOST_STARTS = 6;
const PATIENCE_SECONDS = 3;
const NO_CUT: Cut = { at: 0, how: 'kill', seed: 0 };

/** The real systemd/package-guard in a folder, with programs beside it that count its steps and cut it off. */
export class GuardMachine implements AsyncDisposable {
  readonly #folder: string;
  readonly #program: string;
  #request = '';

  private constructor(folder: string) {
    this.#folder = folder;
    this.#program = join(folder, 'package-guard');
  }

  /** With this package installed, and those kept. */
  static async create(installed: Deb, kept: readonly Deb[]): Promise<GuardMachine> {
    const folder = await mkdtemp(join(tmpdir(), 'package-guard-'));
    const machine = new GuardMachine(folder);
    for (const part of ['programs', 'durable', 'units', 'installed', 'state/packages/app'])
      await mkdir(join(folder, part), { recursive: true });
    for (const name of changing)
      await symlink(join(import.meta.dirname, 'fake-program'), join(folder, 'programs', name));
    await writeFile(machine.#program, await machine.#script());
    await machine.#put({
      agent: 'running',
      count: '0',
      uptime: '100 0',
      cut: '0 none',
      'state/journal.json': ON_TRIAL,
    });
    for (const part of ['one', 'two', 'setup']) await machine.#put({ [`installed/${part}`]: installed.version });
    await machine.#put({ 'installed/status': 'installed' });
    for (const deb of kept) await writeFile(join(machine.#packages, `${hexOf(deb)}.deb`), bytesOf(deb));
    return machine;
  }

  get #packages(): string {
    return join(this.#folder, 'state/packages/app');
  }

  /** Where the script looks for programs, units and the time since the start, nothing else is another's. */
  async #script(): Promise<string> {
    const exchanges = [
      ['\nPATH=', `\nPATH=${this.#folder}/programs:`],
      ['\nunits=/etc/systemd/system\n', `\nunits=${this.#folder}/units\n`],
      ['</proc/uptime', `<${this.#folder}/uptime`],
    ] as const;
    let text = await readFile(join(systemdDirectory, 'package-guard'), 'utf8');
    for (const [from, to] of exchanges) {
      if (text.split(from).length !== 2) throw new Error(`the guard does not have ${from.trim()} once`);
      text = text.replace(from, to);
    }
    return text;
  }

  /** The agent asks for an exchange, and both are seen through, whatever is cut. Resolves with the number of steps. */
  async exchange(want: Deb, otherwise: Deb, cut: Cut = NO_CUT): Promise<number> {
    const lines = { id: 'id-1', package: 'app', want: hexOf(want), otherwise: hexOf(otherwise) };
    const limits = { limit: 60, patience: PATIENCE_SECONDS };
    this.#request = Object.entries({ ...lines, ...limits })
      .map(([key, value]) => `${key}=${value}\n`)
      .join('');
    await writeFile(join(this.#packages, 'request'), this.#request);
    await this.#run([join(this.#folder, 'programs/sync')]);
    await this.#put({ count: '0', cut: `${cut.at} ${cut.how}` });
    let isDue = cut.at > 0;
    let isAsked = await this.#ask();
    for (let starts = 0; starts < MOST_STARTS; starts += 1) {
      if (isDue && (await this.#read('count')) >= cut.at) {
        isDue = false;
        await this.#put({ cut: '0 none' });
        if (cut.how === 'power') await this.#forget(cut);
        if (cut.how === 'power') isAsked = this.#isRegistered;
      }
      if (!isAsked && (await this.#agentRuns())) isAsked = await this.#ask();
      // The unit is started again where it failed.
      if (isAsked) isAsked = !(await this.#watch());
      if (!isAsked && !existsSync(join(this.#packages, 'request'))) break;
    }
    return this.#read('count');
  }

  /** What is installed, what the agent was told of it, and what is left of the guard. */
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

  get #isRegistered(): boolean {
    const units = join(this.#folder, 'units');
    return existsSync(join(units, UNIT)) && existsSync(join(units, 'multi-user.target.wants', UNIT));
  }

  async #agentRuns(): Promise<boolean> {
    return (await this.#text('agent')) === 'running' && !(await this.#installed('one')).startsWith('dead');
  }

  /** As the agent does: what was asked is asked again, if it is not there any more. True: the unit was started. */
  async #ask(): Promise<boolean> {
    if ((await this.#text('state/journal.json')) !== ON_TRIAL) return false;
    const request = join(this.#packages, 'request');
    if (!existsSync(request)) await writeFile(request, this.#request);
    await rm(join(this.#folder, 'unit'), { force: true });
    await this.#run([this.#program, 'answer'], `watch app ${this.#packages}\n`);
    return existsSync(join(this.#folder, 'unit'));
  }

  /** What the unit says. True: it came to its end. */
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
    return exitCode;
  }

  /** Names are old or new, each by itself; of a file that was not made durable there is all, a half or nothing. */
  async #forget({ at, seed }: Cut): Promise<void> {
    const random = seededRandom(seed * 1009 + at);
    await this.#put({ agent: 'running' });
    await writeFile(join(this.#folder, 'installed/setup'), await readFile(join(this.#folder, 'durable/setup')));
    for (const part of ['state/packages', 'state/packages/app', 'units', 'units/multi-user.target.wants'])
      await this.#forgetFolder(join(this.#folder, part), random);
  }

  async #forgetFolder(folder: string, random: () => number): Promise<void> {
    if (!existsSync(folder)) return;
    const list = join(this.#folder, 'durable', `names${folder.replaceAll('/', ':')}`);
    const lines = existsSync(list) ? (await readFile(list, 'utf8')).trim().split('\n') : [];
    const before = new Map(lines.map((line) => line.trim().split(' ')).map(([inode = '', name = '']) => [name, inode]));
    const now = await readdir(folder, { withFileTypes: true });
    // A folder or a link is there or not by what names it.
    const others = new Set(now.filter((entry) => !entry.isFile()).map(({ name }) => name));
    for (const name of new Set([...before.keys(), ...now.map((entry) => entry.name)]))
      if (name !== '' && !others.has(name)) await this.#forgetFile(join(folder, name), before.get(name), random);
  }

  async #forgetFile(path: string, inode: string | undefined, random: () => number): Promise<void> {
    const synced = inode === undefined ? undefined : await this.#synced(inode);
    const seen = existsSync(path) ? await readFile(path) : undefined;
    const left = random() < 0.5 ? synced : seen;
    await rm(path, { force: true });
    if (left === undefined) return;
    const kept = left === synced || synced?.equals(left) === true ? 1 : Math.floor(random() * 3) / 2;
    await writeFile(path, left.subarray(0, Math.floor(left.byteLength * kept)), { mode: 0o755 });
  }

  /** What was made durable of a file. */
  async #synced(inode: string): Promise<Buffer> {
    const durable = join(this.#folder, 'durable', `inode-${inode}`);
    return existsSync(durable) ? readFile(durable) : Buffer.alloc(0);
  }

  async #put(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [path, text] of Object.entries(files)) await writeFile(join(this.#folder, path), `${text}\n`);
  }

  async #installed(part: string): Promise<string> {
    return this.#text(`installed/${part}`);
  }

  async #read(path: string): Promise<number> {
    return Number(await this.#text(path));
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
