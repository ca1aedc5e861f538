import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { SlotName } from '../../../../src/update/ports.ts';
import { Console } from './console.ts';

/** A machine from power on to its reset or power cut. */
export interface RunningMachine {
  /** As by pulling the plug. */
  readonly kill: () => void;
  /** Resolves with true if it ended in a reset. */
  readonly ended: Promise<boolean>;
  /** Returns the processor time of its emulator, if it is known. */
  readonly processorSeconds?: () => number | undefined;
}

export interface PowerCycle {
  /** File for every write and flush of the disk, in the format of dm-log-writes, or undefined. */
  readonly log: string | undefined;
  readonly onLine: (line: string) => void;
}

export interface GatewayMachineOptions {
  readonly start: (cycle: PowerCycle) => RunningMachine;
  /** Directory for the writes of each power cycle (`writes-0`, `writes-1`, …), or undefined. */
  readonly logs?: string | undefined;
  readonly onLine?: ((line: string) => void) | undefined;
}

const MAX_BOOTS = 24;
const KERNEL_STARTS = /thing\.slot=([AB])\b/;
const BOOTLOADER_STARTS = /(?:Booting `Slot |the bootloader chose slot )([AB])/;

/** A gateway with a disk and a bootloader: its power cycles, one after the other. */
export class GatewayMachine implements AsyncDisposable {
  readonly console = new Console();
  /** Slots that the bootloader chose, in order. */
  readonly boots: SlotName[] = [];
  readonly #options: GatewayMachineOptions;
  #machine: RunningMachine | undefined;
  #power: 'on' | 'off' = 'off';
  #cycles = 0;
  #finishedBytes = 0;
  #finishedSeconds = 0;
  #lastSeconds = 0;
  #log: string | undefined;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: GatewayMachineOptions) {
    this.#options = options;
  }

  /** Number of power cycles with a log of their writes. */
  get cycles(): number {
    return this.#cycles;
  }

  /** Total bytes of all logs by now: a position in the history of the disk. */
  get position(): number {
    return this.#finishedBytes + (this.#log === undefined ? 0 : statSync(this.#log).size);
  }

  /** Processor time of all power cycles, each up to its last line on the console. */
  get processorSeconds(): number {
    return this.#finishedSeconds + this.#lastSeconds;
  }

  powerOn(): void {
    if (this.#power === 'on') return;
    this.#power = 'on';
    this.console.open();
    this.#ended = this.#bootAgainAndAgain();
    this.#ended.catch(() => {}); // the console reports it
  }

  /** As by pulling the plug, of a machine whose disk has no volatile cache. */
  async powerOff(): Promise<void> {
    this.#power = 'off';
    this.#lookAtProcessor();
    this.#machine?.kill();
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
      this.#say(`*** the gateway broke: ${String(error)}`);
      this.console.close(`the gateway broke: ${String(error)}`);
    }
  }

  /** From power on to a reset. */
  async #cycle(): Promise<void> {
    const { logs, start } = this.#options;
    const log = logs === undefined ? undefined : join(logs, `writes-${this.#cycles}`);
    if (log !== undefined) writeFileSync(log, '');
    this.#log = log;
    this.#say('*** power');
    const seen = { bootloader: false };
    this.#machine = start({ log, onLine: (line) => this.#hear(line, seen) });
    if (this.#power === 'off') this.#machine.kill();
    const isReset = await this.#machine.ended;
    this.#finishedBytes = this.position;
    this.#finishedSeconds += this.#lastSeconds;
    this.#lastSeconds = 0;
    this.#log = undefined;
    this.#cycles += 1;
    this.#say(isReset ? '*** reset' : '*** the machine ended');
    if (!isReset) this.#power = 'off';
  }

  #hear(line: string, seen: { bootloader: boolean }): void {
    const slot = (BOOTLOADER_STARTS.exec(line) ?? (seen.bootloader ? null : KERNEL_STARTS.exec(line)))?.[1];
    if (!seen.bootloader && (slot === 'A' || slot === 'B')) {
      seen.bootloader = true;
      this.boots.push(slot);
    }
    this.#lookAtProcessor();
    this.#say(line);
  }

  #lookAtProcessor(): void {
    this.#lastSeconds = this.#machine?.processorSeconds?.() ?? this.#lastSeconds;
  }

  #say(line: string): void {
    this.#options.onLine?.(line);
    this.console.say(line);
  }
}
