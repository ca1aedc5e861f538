import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { agentEnvironment } from '../bench-agent.ts';
import type { BenchContext } from '../context.ts';
import { writeText } from '../firmware-files.ts';
import { ServiceProcess } from '../service-process.ts';

const run = promisify(execFile);
/** The log line of a daemon after a check without changes; older builds wrote the first words. */
export const nothingToDo = /up to date|Nothing to do|No interrupted update/;
const SLOT_BYTES = 1024 * 1024;
/** As systemd/thing-agent.service sets it. */
const WATCHDOG_USEC = 300_000_000;

/** A gateway that runs what its service names, with nothing to do but to look from time to time. */
export class IdleGateway implements AsyncDisposable {
  readonly #command: readonly string[];
  readonly #service: ServiceProcess;
  readonly #gateway: FileGateway;
  readonly #workFolder: string;
  readonly #notifySocket: string;
  readonly #receiver: ChildProcess;
  readonly #messages: Interface;

  private constructor(
    program: readonly string[],
    {
      service,
      gateway,
      workFolder,
    }: {
      readonly service: ServiceProcess;
      readonly gateway: FileGateway;
      readonly workFolder: string;
    },
  ) {
    this.#command = [...program, '--config', gateway.configFile];
    this.#service = service;
    this.#gateway = gateway;
    this.#workFolder = workFolder;
    this.#notifySocket = join(gateway.directory, 'notify');
    const script = join(import.meta.dirname, '../../../unit-and-integration/system/processes/notify-socket.pl');
    this.#receiver = spawn('perl', [script, this.#notifySocket], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#messages = createInterface({ input: this.#receiver.stdout as Readable });
  }

  static async create({ workFolder, program }: BenchContext): Promise<IdleGateway> {
    const folder = await mkdtemp(join(workFolder, 'idle-'));
    const image = Buffer.alloc(SLOT_BYTES, 'image');
    await writeFile(join(folder, 'image'), image);
    const text = await writeText(join(folder, 'image.json'), join(folder, 'image'));
    const service = await ServiceProcess.start({ texts: { v1: text } });
    const updateToml = 'schedule = "0 0 1 1 *"'; // no scheduled check during a measurement
    const options = { serviceUrl: service.url, image, slotBytes: SLOT_BYTES, updateToml };
    const gateway = await FileGateway.create(options);
    const idle = new IdleGateway([program], { service, gateway, workFolder });
    await once(idle.#messages, 'line'); // it listens
    await chmod(idle.#notifySocket, 0o777);
    await idle.command('--update-now');
    gateway.boot();
    await idle.command('--update-now'); // commits the update
    return idle;
  }

  get env(): Readonly<Record<string, string>> {
    return agentEnvironment(this.#workFolder, this.#gateway);
  }

  get configFile(): string {
    return this.#gateway.configFile;
  }

  async command(...args: readonly string[]): Promise<void> {
    const [program = '', ...before] = this.#command;
    await run(program, [...before, ...args], { env: { ...process.env, ...this.env } });
  }

  /** The daemon as systemd runs it. `ready` resolves when systemd would know, `idle` after the first look. */
  start(
    watchdog = true,
    argv?: readonly string[],
  ): {
    readonly daemon: ChildProcess;
    readonly ready: Promise<void>;
    readonly idle: Promise<void>;
  } {
    const env = {
      ...process.env,
      ...this.env,
      NOTIFY_SOCKET: this.#notifySocket,
      WATCHDOG_USEC: watchdog ? String(WATCHDOG_USEC) : '',
    };
    const ready = lineWith(this.#messages, /READY=1/);
    const [program = '', ...args] = argv ?? [...this.#command, 'run'];
    const daemon = spawn(program, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env,
    });
    const idle = lineWith(createInterface({ input: daemon.stderr }), nothingToDo);
    return { daemon, ready, idle };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#receiver.kill();
    await this.#gateway[Symbol.asyncDispose]();
    await this.#service[Symbol.asyncDispose]();
  }
}

export async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill();
  await ended;
}

async function lineWith(lines: Interface, text: RegExp): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const onLine = (line: string): void => {
    if (text.test(line)) resolve();
  };
  lines.on('line', onLine);
  await promise;
  lines.off('line', onLine);
}
