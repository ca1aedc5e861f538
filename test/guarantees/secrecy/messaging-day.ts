import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { stop } from '../../fakes/machine/file-gateway.ts';
import { MessagingGateway, passwords } from '../../unit-and-integration/daemon/wiring/messaging-rig.ts';
import type { FormOptions } from '../../unit-and-integration/daemon/wiring/messaging-rig.ts';
import { Eavesdropper } from './eavesdropper.ts';

/** A gateway that uses the service's messaging form, and all its output. */
export class MessagingDay implements AsyncDisposable {
  readonly ear = new Eavesdropper();
  readonly rig: MessagingGateway;

  private constructor(rig: MessagingGateway) {
    this.rig = rig;
    this.ear.keep('the password of the broker', passwords.gateway);
  }

  static async begin(options: FormOptions): Promise<MessagingDay> {
    return new MessagingDay(await MessagingGateway.create('messaging', options));
  }

  async type(words: string): Promise<void> {
    const { stdout, stderr } = await this.rig.gateway.run(...words.split(' '));
    this.#keepKey();
    this.ear.hear(`agent ${words}`, `${stdout}${stderr}`);
  }

  /** Runs a daemon during the action, and reads its status at the end. */
  async withDaemon(action: () => Promise<void>): Promise<void> {
    let log = '';
    const child = await this.rig.gateway.startDaemon((line) => (log += `${line}\n`));
    try {
      await action();
      for (const words of ['status --json', 'doctor --json']) await this.type(words);
    } finally {
      const ended = once(child, 'close');
      await stop(child);
      await ended;
      this.ear.hear('the log of the daemon', log);
    }
  }

  /** Records the content of the disk, and requests to the service and the broker. */
  listenAround(): void {
    const { gateway, service, side } = this.rig;
    this.#keepKey();
    const names = readdirSync(gateway.directory, { recursive: true, encoding: 'utf8' });
    for (const path of names.filter((name) => !/slot-[ab]\.img$|identity\.json/.test(name))) {
      const whole = join(gateway.directory, path);
      if (statSync(whole).isFile()) this.ear.hear(path, readFileSync(whole, 'latin1'));
    }
    for (const { topic, method, params } of side.requests) {
      this.ear.hear(`the request ${method}`, `${topic} ${JSON.stringify(params)}`);
    }
    for (const { method, path, headers, body } of service.calls) {
      const { 'x-apikey': _, ...others } = headers;
      this.ear.hear(`the call ${method} ${path}`, `${path} ${JSON.stringify(others)} ${body}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.rig[Symbol.asyncDispose]();
  }

  #keepKey(): void {
    for (const { apiKey } of this.rig.service.world.things) if (apiKey !== '') this.ear.keep('an API key', apiKey);
  }
}
