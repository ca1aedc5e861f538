import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, readSync, rmSync, watch, writeFileSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { agentProgram } from './built-agent.ts';
import { endHosted, runHosted } from './hosted-agent.ts';

export interface FileGatewayOptions {
  readonly serviceUrl: string;
  /** Initial content of slot A. */
  readonly image: Uint8Array;
  readonly slotBytes: number;
  /** PEM. Unsigned firmware is permitted without it. */
  readonly trustedKey?: string | undefined;
  /** More TOML, in tables of its own. */
  readonly extraToml?: string;
  /** Lines of `[update]`. */
  readonly updateToml?: string;
  /** Lines of `[service]`. */
  readonly serviceToml?: string;
  readonly serialNumber?: string;
  /** Paths of block devices. Default: files. */
  readonly slots?: { readonly A: string; readonly B: string };
  /** An empty directory that is not removed afterwards. Default: a temporary one. */
  readonly directory?: string;
  /** Default: three seconds. */
  readonly healthDeadline?: string;
  /** True if a healthy gateway must reach its service. Default: true. */
  readonly healthService?: boolean;
  /** Default: the sources. */
  readonly program?: string;
  /** True if results are reported: each report waits for an unavailable service. Default: true. */
  readonly reports?: boolean;
  /** Splay of update checks. Default: none. */
  readonly splay?: string;
}

export interface Finished {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * A gateway in a directory: two slots, a boot environment, the real program. An image is healthy unless it begins with
 * `unhealthy`; one that begins with `dead` never starts the agent. A reboot kills the agent and lets the bootloader
 * choose.
 */
export class FileGateway implements AsyncDisposable {
  readonly directory: string;
  readonly slots: { readonly A: string; readonly B: string };
  readonly #children = new Set<ChildProcess>();
  readonly #isTemporary: boolean;
  readonly #program: string;
  readonly #surroundings: Readonly<Record<string, string>>;
  readonly #mayBeHosted: boolean;

  private constructor(directory: string, options: FileGatewayOptions) {
    this.directory = directory;
    this.slots = options.slots ?? { A: join(directory, 'slot-a.img'), B: join(directory, 'slot-b.img') };
    this.#isTemporary = options.directory === undefined;
    this.#program = options.program ?? agentProgram();
    this.#surroundings = { RUNTIME_DIRECTORY: join(directory, 'run'), NO_PROXY: '*', no_proxy: '*' };
    this.#mayBeHosted = options.program === undefined;
  }

  static async create(options: FileGatewayOptions): Promise<FileGateway> {
    const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'gateway-')));
    const gateway = new FileGateway(directory, options);
    const { slots } = gateway;
    await mkdir(join(directory, 'boot'));
    await copyFile(join(import.meta.dirname, 'boot-handler'), join(directory, 'boot/handler'));
    await chmod(join(directory, 'boot/handler'), 0o755);
    if (options.slots === undefined) {
      for (const path of [slots.A, slots.B]) {
        await using file = await open(path, 'w');
        await file.truncate(options.slotBytes);
      }
    }
    {
      await using slot = await open(slots.A, 'r+');
      await slot.write(options.image, 0, options.image.byteLength, 0);
    }
    await writeFile(join(directory, 'healthy'), healthProgram(directory, slots), { mode: 0o755 });
    await writeFile(join(directory, 'reboot'), rebootProgram(directory), { mode: 0o755 });
    if (options.trustedKey !== undefined) await writeFile(join(directory, 'release.pem'), options.trustedKey);
    await gateway.configure(options);
    gateway.boot();
    return gateway;
  }

  get configFile(): string {
    return join(this.directory, 'config.toml');
  }

  get rebootRequested(): boolean {
    return existsSync(join(this.directory, 'reboot-requested'));
  }

  get booted(): 'A' | 'B' {
    return readFileSync(join(this.directory, 'boot/current'), 'utf8').trim() === 'B' ? 'B' : 'A';
  }

  async configure(options: FileGatewayOptions): Promise<void> {
    await writeFile(this.configFile, configText(this.directory, this.slots, options));
  }

  /** The machine starts: a new boot id, and the bootloader chooses. Slots whose image is dead hang until the next one. */
  boot(): 'A' | 'B' {
    for (let attempt = 0; attempt < 8; attempt += 1) {
      rmSync(join(this.directory, 'reboot-requested'), { force: true });
      const found = spawnSync(join(this.directory, 'boot/handler'), ['boot'], { encoding: 'utf8' });
      const slot = found.stdout.trim();
      if (slot !== 'A' && slot !== 'B') throw new Error(`no slot boots: ${found.stdout}${found.stderr}`);
      writeFileSync(join(this.directory, 'boot-id'), `${randomUUID()}\n`);
      if (!this.imageBeginsWith(slot, 'dead')) return slot;
    }
    throw new Error('only dead slots boot');
  }

  imageBeginsWith(slot: 'A' | 'B', text: string): boolean {
    const head = Buffer.alloc(text.length);
    const file = openSync(this.slots[slot], 'r');
    try {
      readSync(file, head, 0, head.length, 0);
    } finally {
      closeSync(file);
    }
    return head.toString('latin1') === text;
  }

  async imageOf(slot: 'A' | 'B', sizeBytes: number): Promise<Buffer> {
    await using file = await open(this.slots[slot], 'r');
    const { buffer } = await file.read(Buffer.alloc(sizeBytes), 0, sizeBytes, 0);
    return buffer;
  }

  /** A command as a technician types it. */
  spawn(
    args: readonly string[],
    stdio: 'pipe' | 'inherit' = 'pipe',
    environment: Readonly<Record<string, string>> = {},
    cwd: string = process.cwd(),
  ): ChildProcess {
    const [program, ...before] = 'NODE_OPTIONS' in environment ? this.#withoutLauncher() : [this.#program];
    const child = spawn(program ?? '', [...before, '--config', this.configFile, ...args], {
      cwd,
      stdio: ['ignore', stdio, stdio],
      env: { ...process.env, ...this.#surroundings, ...environment },
    });
    this.#children.add(child);
    child.once('exit', () => this.#children.delete(child));
    return child;
  }

  /** Starts it as the launcher does, but keeps the environment that loads a test's hook. */
  #withoutLauncher(): readonly string[] {
    const folder = dirname(this.#program);
    const main = [join(folder, 'lib/main.js'), join(folder, 'src/main.ts')].find((path) => existsSync(path)) ?? '';
    const heap = ['--max-semi-space-size=1', '--max-old-space-size=256'];
    return [process.execPath, '--disable-warning=ExperimentalWarning', ...heap, main];
  }

  async run(...args: readonly string[]): Promise<Finished> {
    return this.runIn({}, ...args);
  }

  /** With this in its environment, too. */
  async runIn(environment: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Finished> {
    return (await this.#runHosted(args, environment)) ?? this.#runApart(args, environment);
  }

  async #runHosted(
    args: readonly string[],
    environment: Readonly<Record<string, string>>,
  ): Promise<Finished | undefined> {
    if (!this.#mayBeHosted || 'NODE_OPTIONS' in environment) return undefined;
    const env = { ...process.env, ...this.#surroundings, ...environment };
    return runHosted({ args: ['--config', this.configFile, ...args], env });
  }

  /** In a process of its own, as a technician's command is; `run` is, too, in `npm run prove`. */
  async runApart(...args: readonly string[]): Promise<Finished> {
    return this.#runApart(args);
  }

  async #runApart(args: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<Finished> {
    const child = this.spawn(args, 'pipe', environment);
    const output = [collect(child.stdout), collect(child.stderr)];
    const [exitCode] = (await once(child, 'close')) as [number | null];
    const [stdout = '', stderr = ''] = await Promise.all(output);
    return { exitCode, stdout, stderr };
  }

  async json(...args: readonly string[]): Promise<unknown> {
    const { stdout, stderr } = await this.run(...args, '--json');
    const last = stdout.trim().split('\n').at(-1) ?? '';
    if (last === '') throw new Error(`no answer: ${stderr}`);
    return JSON.parse(last);
  }

  /** Resolves when the daemon answers on its socket. */
  async startDaemon(
    onLine: (line: string) => void = () => {},
    environment: Readonly<Record<string, string>> = {},
    options: readonly string[] = [],
  ): Promise<ChildProcess> {
    return this.#start(['run', ...options], 'agent started', onLine, environment);
  }

  async #start(
    command: readonly string[],
    lastWord: string,
    onLine: (line: string) => void,
    environment: Readonly<Record<string, string>>,
  ): Promise<ChildProcess> {
    const child = this.spawn(command, 'pipe', environment);
    const up = Promise.withResolvers<void>();
    const lines: string[] = [];
    createInterface({ input: child.stderr as Readable }).on('line', (line) => {
      lines.push(line);
      onLine(line);
      if (line.includes(lastWord)) up.resolve();
    });
    child.once('exit', (code) =>
      up.reject(new Error(`agent ${command.join(' ')} ended with ${code}:\n${lines.join('\n')}`)),
    );
    await up.promise;
    return child;
  }

  /** Resolves when the reboot command was called. */
  async rebootRequest(signal: AbortSignal): Promise<void> {
    using watcher = watchFolder(this.directory);
    while (!this.rebootRequested) await watcher.change(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#children].map(async (child) => stop(child, 'SIGKILL')));
    endHosted(this.configFile);
    if (!this.#isTemporary) return;
    // Its child processes may write a moment longer.
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

export async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const ended = once(child, 'exit') as Promise<[number | null]>;
  child.kill(signal);
  const [code] = await ended;
  return code;
}

function watchFolder(directory: string): Disposable & { readonly change: (signal: AbortSignal) => Promise<void> } {
  let happened = Promise.withResolvers<void>();
  const watcher = watch(directory, () => {
    happened.resolve();
    happened = Promise.withResolvers();
  });
  return {
    change: async (signal) => {
      const aborted = Promise.withResolvers<never>();
      const abort = (): void => aborted.reject(signal.reason);
      signal.addEventListener('abort', abort, { once: true });
      try {
        signal.throwIfAborted();
        await Promise.race([happened.promise, aborted.promise]);
      } finally {
        signal.removeEventListener('abort', abort);
      }
    },
    [Symbol.dispose]: () => watcher.close(),
  };
}

async function collect(stream: Readable | null): Promise<string> {
  if (stream === null) return '';
  return (await stream.setEncoding('utf8').toArray()).join('');
}

function configText(
  directory: string,
  slots: { readonly A: string; readonly B: string },
  options: FileGatewayOptions,
): string {
  const trust = options.trustedKey === undefined ? 'allow_unsigned = true' : `keys = ["${directory}/release.pem"]`;
  return `
[service]
url = "${options.serviceUrl}"
${options.serviceToml ?? ''}

[device]
serial_number = "${options.serialNumber ?? 'GW-0001'}"
device_type = "demo-gateway"

[paths]
state = "${directory}/state"
run = "${directory}/run"

[update]
splay = "${options.splay ?? '0s'}"
health = { deadline = "${options.healthDeadline ?? '3s'}", commands = [["${directory}/healthy"]], service = ${options.healthService ?? true} }
${options.updateToml ?? ''}

[trust]
${trust}

${options.reports === false ? '' : '[report]\noutcome = "update_outcome"'}

[system]
reboot_command = ["${directory}/reboot"]
boot_id_file = "${directory}/boot-id"

[targets.gateway]
kind = "slots"
slots = { A = "${slots.A}", B = "${slots.B}" }
bootloader = { kind = "custom", handler = "${directory}/boot/handler" }
${options.extraToml ?? ''}
`;
}

function healthProgram(directory: string, slots: { readonly A: string; readonly B: string }): string {
  return `#!/bin/sh
# The application's own opinion: an image that begins with "unhealthy" is.
read -r current < '${directory}/boot/current'
if [ "$current" = B ]; then slot='${slots.B}'; else slot='${slots.A}'; fi
if [ "$(head -c 9 "$slot")" = unhealthy ]; then echo 'the application does not answer' >&2; exit 1; fi
`;
}

function rebootProgram(directory: string): string {
  return `#!/bin/sh\necho "$*" > '${directory}/reboot-requested'\n`;
}
