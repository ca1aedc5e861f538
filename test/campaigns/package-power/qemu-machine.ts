import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { Console } from '../../fakes/machine/booting/console.ts';
import type { Finished } from '../../fakes/machine/booting/nspawn-gateway.ts';
import { startQemu } from '../../fakes/machine/booting/qemu.ts';
import { rootEnvironment, said } from '../../guarantees/systemd/package/package-machine.ts';
import type { DebianMachine } from '../../guarantees/systemd/package/package-machine.ts';

/**
 * Limit for a line of the console, or a command. With other load on the machine, a start of an emulated machine takes
 * minutes.
 */
const DEADLINE_MS = 30 * 60_000;

/** Time follows executed instructions (125 million are a second), so that load on the host shortens no deadline. */
const COUNTED = ['-icount', 'shift=3,sleep=on'];

/** On its disk: what takes commands from the second serial port, one after the other, and answers. */
export const orderTaker: Readonly<Record<string, string>> = {
  '/etc/systemd/system/orders.service':
    '[Unit]\nAfter=multi-user.target\n[Service]\nExecStart=/usr/lib/app/orders\n' +
    `Environment=${rootEnvironment.join(' ')}\n`,
  '/usr/lib/app/orders': [
    '#!/bin/sh',
    'exec <>/dev/ttyS1 >&0',
    'stty raw -echo',
    'echo ready',
    'while read -r order; do',
    '  printf %s "$order" | base64 -d >/run/order',
    '  sh /run/order </dev/null >/run/order.out 2>/run/order.err',
    '  printf "ended %s =%s =%s\\n" $? "$(base64 -w 0 /run/order.out)" "$(base64 -w 0 /run/order.err)"',
    'done',
    '',
  ].join('\n'),
};

const ANSWER = /^ended (\d+) =(\S*) =(\S*)$/;

export interface QemuPlace {
  readonly disk: string;
  readonly servicePort: number;
  readonly log: string | undefined;
  readonly onLine?: ((line: string) => void) | undefined;
}

/** A machine with Debian on one writable disk: an emulated one, from its power on. */
export class QemuMachine implements DebianMachine {
  readonly console = new Console(DEADLINE_MS);
  readonly #answers = new Console(DEADLINE_MS);
  readonly #program: ChildProcess;
  readonly #port: Promise<Socket>;
  readonly #opened: AsyncDisposableStack;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(program: ChildProcess, port: Promise<Socket>, opened: AsyncDisposableStack) {
    this.#program = program;
    this.#port = port;
    this.#opened = opened;
  }

  static async boot({ onLine, ...place }: QemuPlace): Promise<QemuMachine> {
    await using opened = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'qemu-machine-'));
    opened.defer(async () => rm(folder, { recursive: true }));
    const orders = createServer();
    opened.defer(() => void orders.close());
    orders.listen(join(folder, 'orders'));
    await once(orders, 'listening');
    const port = once(orders, 'connection').then(([socket]) => socket as Socket);
    const serial = [
      '-chardev',
      `socket,id=orders,path=${join(folder, 'orders')}`,
      '-device',
      'isa-serial,chardev=orders',
    ];
    const program = startQemu({
      ...place,
      serialNumber: 'GW-1',
      more: [...COUNTED, ...serial],
      onLine: (line) => {
        onLine?.(line);
        machine.console.say(line);
      },
    });
    const machine = new QemuMachine(program, port, opened.move());
    await machine.#started();
    return machine;
  }

  async exec(...command: readonly string[]): Promise<Finished> {
    const turn = this.#last.then(async () => this.#order(command));
    this.#last = turn.catch(() => {});
    return turn;
  }

  async tell(...command: readonly string[]): Promise<string> {
    return said(command, await this.exec(...command));
  }

  /** Writes a durable file, as an operator would. */
  async put(path: string, text: string): Promise<void> {
    const script = 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1" && chmod "$3" "$1" && sync "$1"';
    await this.tell('sh', '-c', script, 'sh', `/${path}`, text, text.startsWith('#!') ? '755' : '644');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }

  async #started(): Promise<void> {
    const ended = this.#close();
    this.#opened.defer(async () => {
      this.#program.kill('SIGKILL');
      await ended;
    });
    try {
      createInterface({ input: await this.#port }).on('line', (line) => this.#answers.say(line));
      await this.console.until(/Startup finished/);
      await this.#answers.until(/^ready$/); // before it, lines are limited as on a terminal
    } catch (error) {
      await this[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #close(): Promise<void> {
    await once(this.#program, 'close');
    for (const lines of [this.console, this.#answers]) lines.close('the machine ended');
  }

  async #order(command: readonly string[]): Promise<Finished> {
    const port = await this.#port;
    port.write(`${Buffer.from(command.map(quoted).join(' ')).toString('base64')}\n`);
    const answer = await this.#answers.until(ANSWER);
    const [, code = '', stdout = '', stderr = ''] = ANSWER.exec(answer) ?? [];
    const text = (encoded: string): string => Buffer.from(encoded, 'base64').toString();
    return { exitCode: Number(code), stdout: text(stdout), stderr: text(stderr) };
  }
}

/** A word of a shell. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
