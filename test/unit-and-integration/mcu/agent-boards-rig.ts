import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { expect } from 'vitest';

import { SimulatedAvr } from '../../fakes/boards/avr/simulated-avr.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../fakes/machine/file-gateway.ts';
import { versionsOf } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { intelHex } from './images/build.ts';
import { boardsToml, meters, programOf } from './meters.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
/** Slow pages: a flash can be watched, and hit in the middle. */
const pageMs = 20;

const beyondTheChip = Buffer.from(intelHex([{ address: 0x9000, bytes: new Uint8Array(64) }]));

function image(text: string): Buffer {
  return Buffer.alloc(100_000, `${text}\n`, 'latin1');
}

const OLD = image('healthy 0');
const NEW = image('healthy 1');

async function artifact(name: string, contents: Readonly<Record<string, Buffer>>): Promise<Buffer> {
  const names: Readonly<Record<string, string>> = {
    'rootfs.ext4': 'gateway',
    'meter.hex': 'meter',
    'relay.hex': 'relay',
  };
  const files = Object.entries(contents).map(([file, content]) => ({ name: file, content }));
  const targets = Object.fromEntries(files.map((file) => [file.name, names[file.name] ?? '']));
  const order = Object.values(targets).filter((target) => target !== 'gateway');
  return buildArtifact({ name, devices: ['demo-gateway'], files, targets, order, key: keys.privateKey });
}

const firmware = {
  v0: await artifact('zero', { 'rootfs.ext4': OLD }),
  both: await artifact('both', { 'rootfs.ext4': NEW, 'meter.hex': meters.new.hex }),
  board: await artifact('board', { 'meter.hex': meters.new.hex }),
  half: await artifact('half', { 'rootfs.ext4': NEW, 'meter.hex': meters.new.hex, 'relay.hex': meters.new.hex }),
  beyond: await artifact('beyond', { 'rootfs.ext4': NEW, 'meter.hex': beyondTheChip }),
};

/** A gateway in a folder, with a meter in simavr whose program its service knows. */
export class GatewayWithMeter implements AsyncDisposable {
  readonly service: StandIn;
  readonly meter: SimulatedAvr;
  readonly gateway: FileGateway;
  readonly #opened: AsyncDisposableStack;

  private constructor(service: StandIn, meter: SimulatedAvr, gateway: FileGateway, opened: AsyncDisposableStack) {
    this.service = service;
    this.meter = meter;
    this.gateway = gateway;
    this.#opened = opened;
  }

  static async create(): Promise<GatewayWithMeter> {
    await using opened = new AsyncDisposableStack();
    const versions = versionsOf(firmware);
    const service = opened.use(await startStandIn({ versions, currentVersionId: 'v0' }));
    const board = { bootloader: 'optiboot', pageMs, contents: meters.old.memory } as const;
    const meter = opened.use(await SimulatedAvr.start(board));
    const gateway = opened.use(await FileGateway.create(optionsOf(service, meter)));
    return new GatewayWithMeter(service, meter, gateway, opened.move());
  }

  async configure(more: Partial<FileGatewayOptions>): Promise<void> {
    await this.gateway.configure({ ...optionsOf(this.service, this.meter), ...more });
  }

  /** An operator's file, without another update; unsigned ones are permitted. */
  async bringFile(): Promise<string> {
    await this.configure({ trustedKey: undefined, updateToml: 'follow = "none"' });
    return this.writeFile();
  }

  async writeFile(): Promise<string> {
    const file = join(this.gateway.directory, 'meter-2.hex');
    await writeFile(file, meters.new.hex);
    return file;
  }

  /** Versions of gateway and meter, and the last report to the service. */
  async state(): Promise<unknown> {
    const { service, gateway, meter } = this;
    const reported = service.world.things[0]?.properties.get('update_outcome') as { code?: string } | undefined;
    const system = gateway.imageBeginsWith(gateway.booted, 'healthy 1') ? 'new' : 'old';
    return { gateway: system, meter: await programOf(meter), code: reported?.code };
  }

  /** Stages the version and boots into its trial. */
  async tryVersion(version: string): Promise<void> {
    this.service.world.targetVersionId = version;
    await this.gateway.run('--update-now');
    if (this.gateway.boot() !== 'B') throw new Error(`${version} is not on trial`);
  }

  /** Lets the agent finish its current update, with all requested reboots, and begin no other. */
  async toTheEnd(): Promise<void> {
    await this.configure({ updateToml: 'follow = "none"' });
    await this.untilNoReboot('--update-now');
  }

  async untilNoReboot(command: string): Promise<void> {
    await this.gateway.run(command);
    for (let boots = 0; this.gateway.rebootRequested && boots < 5; boots += 1) {
      this.gateway.boot();
      await this.gateway.run('--update-now');
    }
  }

  /** Runs an update and kills it with SIGKILL as soon as the first pages of the meter are written. */
  async killWhileFlashing(...args: readonly string[]): Promise<void> {
    const child = this.gateway.spawn([...args, '--json']);
    const ended = once(child, 'exit');
    createInterface({ input: child.stdout as Readable }).on('line', (line) => {
      const { step, doneBytes = 0 } = JSON.parse(line) as { step?: string; doneBytes?: number };
      if (step === 'writing' && doneBytes > 0) child.kill('SIGKILL');
    });
    await ended;
    if (child.signalCode !== 'SIGKILL') throw new Error('it ended before the meter was written');
  }

  /** The output of every view. */
  async views(): Promise<unknown> {
    const { gateway } = this;
    const { boards } = (await gateway.json('mcu', 'list')) as { readonly boards: readonly unknown[] };
    const { findings } = (await gateway.json('doctor')) as { readonly findings: readonly { readonly name: string }[] };
    const doctor = findings.find(({ name }) => name === 'boards');
    return { list: boards[0], doctor, status: (await gateway.run('status')).stdout };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

function optionsOf(service: StandIn, meter: SimulatedAvr): FileGatewayOptions {
  const extraToml = boardsToml(meter);
  return { serviceUrl: service.url, image: OLD, slotBytes: 200_000, trustedKey: keys.publicPem, extraToml };
}

/** Typed, as vitest's own is not. */
export const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** The state of a board after an operator's interrupted flash operation. */
export const halfWritten = {
  list: { name: 'meter', writing: { name: 'meter-2.hex', restorable: true } },
  doctor: { ok: false, detail: matching(/^meter: flashing meter-2\.hex was interrupted/) },
  status: matching(/meter is partially flashed and\s+may\s+have\s+no\s+program/),
};
