import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { runProgram } from '../../../../src/system/processes/child-process.ts';

export interface MosquittoTls {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Only clients with a certificate of the same authority. */
  readonly clientCertificates?: boolean;
}

export interface MosquittoOptions {
  readonly tls?: MosquittoTls;
  /** Names and passwords. Default: any client. */
  readonly users?: Readonly<Record<string, string>>;
  /** mosquitto.conf(5), acl_file. */
  readonly rules?: string;
  /** Sessions survive a regular end. */
  readonly persistence?: boolean;
}

/** Debian's mosquitto on a free port of this machine, in a folder of its own. */
export class Mosquitto implements AsyncDisposable {
  readonly port: number;
  readonly url: string;
  readonly #directory: string;
  #process: ChildProcess | undefined;
  #isDisposed = false;

  private constructor(directory: string, port: number, isSecure: boolean) {
    this.#directory = directory;
    this.port = port;
    this.url = `${isSecure ? 'mqtts' : 'mqtt'}://127.0.0.1:${port}`;
  }

  static async start(options: MosquittoOptions = {}): Promise<Mosquitto> {
    const directory = await mkdtemp(join(tmpdir(), 'mosquitto-'));
    const broker = new Mosquitto(directory, await freePort(), options.tls !== undefined);
    await writeFile(join(directory, 'mosquitto.conf'), await broker.#configure(options));
    await broker.start();
    return broker;
  }

  /** Again, after `stop`, on the same port. */
  async start(): Promise<void> {
    if (this.#isDisposed) return; // a restart may outlive its test
    const child = spawn('mosquitto', ['-c', join(this.#directory, 'mosquitto.conf')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = child;
    const running = Promise.withResolvers<void>();
    const lines: string[] = [];
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.push(line);
      if (line.includes(' running')) running.resolve();
    });
    child.once('error', running.reject);
    child.once('exit', () => {
      if (this.#isDisposed) running.resolve();
      else running.reject(new Error(`mosquitto ended:\n${lines.join('\n')}`));
    });
    await running.promise;
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    child.kill('SIGCONT');
    await ended;
  }

  async restart(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    await this.stop(signal);
    await this.start();
  }

  /** It neither reads nor writes, and the connections stand. */
  freeze(): void {
    this.#process?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    await this.stop('SIGKILL');
    await rm(this.#directory, { recursive: true });
  }

  async #configure({ tls, users, rules, persistence = false }: MosquittoOptions): Promise<string> {
    const lines = [
      // otherwise it would drop root, and lose access to the directory
      'user root',
      `listener ${this.port} 127.0.0.1`,
      `allow_anonymous ${users === undefined}`,
      `persistence ${persistence}`,
      `persistence_location ${this.#directory}/`,
      'max_queued_messages 1000',
      // else each round trip takes 40 ms: Nagle's algorithm here, delayed acknowledgements there
      'set_tcp_nodelay true',
      'log_dest stderr',
    ];
    if (tls !== undefined) {
      lines.push(`cafile ${tls.caFile}`, `certfile ${tls.certFile}`, `keyfile ${tls.keyFile}`);
      lines.push(`require_certificate ${tls.clientCertificates ?? false}`);
    }
    if (users !== undefined) lines.push(`password_file ${await this.#passwordFile(users)}`);
    if (rules !== undefined) {
      const file = join(this.#directory, 'rules');
      await writeFile(file, rules);
      lines.push(`acl_file ${file}`);
    }
    return `${lines.join('\n')}\n`;
  }

  async #passwordFile(users: Readonly<Record<string, string>>): Promise<string> {
    const file = join(this.#directory, 'passwords');
    await writeFile(file, '', { mode: 0o600 });
    for (const [name, password] of Object.entries(users)) {
      const options = { timeoutMs: 10_000 };
      await runProgram(['mosquitto_passwd', '-b', file, name, password], options, AbortSignal.timeout(20_000));
    }
    return file;
  }
}

/**
 * Below those that the kernel gives to connections (ip(7), ip_local_port_range): while the broker is down, none of them
 * takes its port, not even by connecting to itself.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer();
    server.listen(randomInt(10_000, 32_768), '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') continue;
      throw error;
    }
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
