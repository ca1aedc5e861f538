import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { SlotName } from '../../../src/update/ports.ts';
import { Console } from './console.ts';
import { startQemu } from './qemu.ts';
import type { QemuOptions } from './qemu.ts';

export interface QemuGatewayOptions extends Pick<QemuOptions, 'disk' | 'servicePort' | 'efi' | 'more'> {
  readonly serialNumber?: string;
  /** Where the writes of each power cycle are noted (`writes-0`, `writes-1`, …); undefined: nowhere. */
  readonly logs?: string;
  readonly onLine?: (line: string) => void;
}

const MAX_BOOTS = 24;
const KERNEL_STARTS = /thing\.slot=([AB])\b/;
const GRUB_STARTS = /Booting `Slot ([AB])'/;

/** A gateway that really boots: BIOS, GRUB, kernel, systemd and the agent, on an emulated machine with one disk. */
export class QemuGateway implements AsyncDisposable {
  readonly console = new Console();
  /** What the bootloader chose, in order. */
  readonly boots: SlotName[] = [];
  readonly #options: QemuGatewayOptions;
  #machine: ChildProcess | undefined;
  #power: 'on' | 'off' = 'off';
  #cycles = 0;
  #finishedBytes = 0;
  #log: string | undefined;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: QemuGatewayOptions) {
    this.#options = options;
  }

  /** So many power cycles have a log of their writes. */
  get cycles(): number {
    return this.#cycles;
  }

  /** How many bytes all logs have by now: a place in the history of the disk. */
  get position(): number {
    return this.#finishedBytes + (this.#log === undefined ? 0 : statSync(this.#log).size);
  }

  powerOn(): void {
    if (this.#power === 'on') return;
    this.#power = 'on';
    this.console.open();
    this.#ended = this.#bootAgainAndAgain();
    this.#ended.catch(() => {}); // told by the console
  }

  /** As by pulling the plug, of a machine whose disk has no volatile cache. */
  async powerOff(): Promise<void> {
    this.#power = 'off';
    this.#machine?.kill('SIGKILL');
    await Promise.allSettled([this.#ended]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
  }

  async #bootAgainAndAgain(): Promise<void> {
    try {
      while (this.#power === 'on' && this.#cycles < MAX_BOOTS) await this.#cycle();
      this.console.close(this.#power === 'off' ? 'the gateway is off' : 'the gateway boots again and again');
    } catch (error) {
      this.console.close(`the gateway broke: ${String(error)}`);
    }
  }

  /** From power on to a reset. */
  async #cycle(): Promise<void> {
    const { logs, serialNumber = 'GW-0001', ...options } = this.#options;
    const log = logs === undefined ? undefined : join(logs, `writes-${this.#cycles}`);
    if (log !== undefined) writeFileSync(log, '');
    this.#log = log;
    this.#say('*** power');
    const seen = { bootloader: false };
    this.#machine = startQemu({ ...options, log, serialNumber, onLine: (line) => this.#hear(line, seen) });
    const ended = once(this.#machine, 'close') as Promise<[number | null, string | null]>;
    if (this.#power === 'off') this.#machine.kill('SIGKILL');
    const [code] = await ended;
    this.#finishedBytes = this.position;
    this.#log = undefined;
    this.#cycles += 1;
    this.#say(`*** the machine ended with ${code}`);
    if (code !== 0) this.#power = 'off';
  }

  #hear(line: string, seen: { bootloader: boolean }): void {
    const slot = (GRUB_STARTS.exec(line) ?? (seen.bootloader ? null : KERNEL_STARTS.exec(line)))?.[1];
    if (!seen.bootloader && (slot === 'A' || slot === 'B')) {
      seen.bootloader = true;
      this.boots.push(slot);
    }
    this.#say(line);
  }

  #say(line: string): void {
    this.#options.onLine?.(line);
    this.console.say(line);
  }
}
