import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';

import { WebServer } from './machine/web-server.ts';

const program = join(import.meta.dirname, '../../fakes/service/main.ts');

export interface ServiceOptions {
  /** Version id → a file with its encoded firmware. */
  readonly texts: Readonly<Record<string, string>>;
  readonly tls?: { readonly certFile: string; readonly keyFile: string } | undefined;
  /** Speak the messaging form too, through this broker. */
  readonly brokerUrl?: string | undefined;
  /** A directory for nginx, which serves the images in front of it. Default: this process serves them. */
  readonly nginxFolder?: string | undefined;
}

/** The stand-in of the service in a process of its own. It serves from files, so it waits for the reader, not he for it. */
export class ServiceProcess implements AsyncDisposable {
  readonly url: string;
  /** Its own address, behind nginx. */
  readonly #upstream: string;
  readonly #child: ChildProcess;
  readonly #front: WebServer | undefined;

  private constructor(url: string, child: ChildProcess, front?: WebServer) {
    this.url = front?.url ?? url;
    this.#upstream = url;
    this.#child = child;
    this.#front = front;
  }

  static async start(options: ServiceOptions): Promise<ServiceProcess> {
    const { nginxFolder: folder, texts, tls } = options;
    const { url, child } = await ServiceProcess.#spawn({ ...options, tls: folder === undefined ? tls : undefined });
    if (folder === undefined) return new ServiceProcess(url, child);
    return new ServiceProcess(url, child, await WebServer.start({ folder, texts, tls, upstream: url }));
  }

  static async #spawn({ texts, tls, brokerUrl }: ServiceOptions): Promise<{ url: string; child: ChildProcess }> {
    const versions = Object.entries(texts).flatMap(([id, path]) => ['--text', `${id}=${path}`]);
    const secure = tls === undefined ? [] : ['--tls-cert', tls.certFile, '--tls-key', tls.keyFile];
    const messaging = brokerUrl === undefined ? [] : ['--broker', brokerUrl];
    const args = [program, '--port', '0', '--quiet', ...secure, ...messaging, ...versions];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    for await (const line of createInterface({ input: child.stdout })) {
      const [url] = /https?:\/\/\S+/.exec(line) ?? [];
      if (url !== undefined) return { url, child };
    }
    throw new Error('the stand-in of the service did not start');
  }

  async setTarget(version: string): Promise<void> {
    await this.#call('PUT', '/stand-in/target', JSON.stringify({ version }));
  }

  /** Address of the image for a plain HTTP client. */
  async firmwareUrl(version: string): Promise<string> {
    const { thingId } = (await this.#call('PUT', '/v1/things/activate/bench.json')) as { readonly thingId: string };
    return `${this.url}/v1/things/${thingId}/versions/${version}/firmware.json`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#front?.[Symbol.asyncDispose]();
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }

  async #call(method: string, path: string, body?: string): Promise<unknown> {
    const response = await fetch(`${this.#upstream}${path}`, { method, ...(body === undefined ? {} : { body }) });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status}`);
    return response.json();
  }
}
