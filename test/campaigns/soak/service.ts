import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import type { Answer, Order } from './service-process.ts';

/** The service as the soak sees it: another process. */
export class SoakService implements AsyncDisposable {
  readonly url: string;
  readonly publicPem: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, { url, publicPem }: Extract<Answer, { kind: 'ready' }>) {
    this.#child = child;
    this.url = url;
    this.publicPem = publicPem;
  }

  static async start(): Promise<SoakService> {
    const child = fork(join(import.meta.dirname, 'service-process.ts'), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const [ready] = (await once(child, 'message')) as [Answer];
    if (ready.kind !== 'ready') throw new Error(`the service says ${ready.kind} first`);
    child.unref();
    child.channel?.unref();
    return new SoakService(child, ready);
  }

  /** Returns when it is done. */
  async tell(order: Order): Promise<void> {
    const done = once(this.#child, 'message');
    this.#child.channel?.ref();
    this.#child.send(order);
    await done;
    this.#child.channel?.unref();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.ref();
    this.#child.kill('SIGKILL');
    await ended;
  }
}
