import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { SimulatedAvr } from '../../stand-ins/boards/avr/simulated-avr.ts';
import { FileGateway } from '../../stand-ins/machine/file-gateway.ts';
import type { FileGatewayOptions } from '../../stand-ins/machine/file-gateway.ts';
import { versionsOf } from '../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { buildArtifact } from '../firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../firmware/artifact/keys.ts';
import { boardsToml, meters, programOf } from '../mcu/meters.ts';

const isRoot = process.getuid?.() === 0;
/** `nobody`; without the rights of root both processes have those of the test. */
const agentUser = isRoot ? 65_534 : (process.getuid?.() ?? 0);
/** `dialout`, which `nobody` is not in. */
const DIALOUT = 20;

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
/** Slow pages: a flash can be hit in the middle. */
const pageMs = 20;

function image(text: string): Buffer {
  return Buffer.alloc(100_000, `${text}\n`, 'latin1');
}

const OLD = image('healthy 0');

async function artifact(name: string, contents: Readonly<Record<string, Buffer>>): Promise<Buffer> {
  const files = Object.entries(contents).map(([file, content]) => ({ name: file, content }));
  const names: Readonly<Record<string, string>> = { 'meter.hex': 'meter', 'relay.hex': 'relay' };
  const targets = Object.fromEntries(files.map((file) => [file.name, names[file.name] ?? 'gateway']));
  return buildArtifact({ name, devices: ['demo-gateway'], files, targets, key: keys.privateKey });
}

const firmware = {
  v0: await artifact('zero', { 'rootfs.ext4': OLD }),
  both: await artifact('both', { 'rootfs.ext4': image('healthy 1'), 'meter.hex': meters.new.hex }),
  board: await artifact('board', { 'meter.hex': meters.new.hex }),
  half: await artifact('half', { 'meter.hex': meters.new.hex, 'relay.hex': meters.new.hex }),
};

/** As udev does. */
async function lendToDialout(port: string): Promise<void> {
  const device = await realpath(port);
  await chown(device, 0, DIALOUT);
  await chmod(device, 0o660);
}

/** A gateway of two processes, whose helper runs, with a meter in simavr whose program its service knows. */
export class TwoProcessesWithMeter implements AsyncDisposable {
  readonly service: StandIn;
  readonly meter: SimulatedAvr;
  readonly gateway: FileGateway;
  helper: ChildProcess;
  readonly #opened: AsyncDisposableStack;

  private constructor(
    parts: Pick<TwoProcessesWithMeter, 'service' | 'meter' | 'gateway' | 'helper'>,
    opened: AsyncDisposableStack,
  ) {
    this.service = parts.service;
    this.meter = parts.meter;
    this.gateway = parts.gateway;
    this.helper = parts.helper;
    this.#opened = opened;
  }

  static async create(): Promise<TwoProcessesWithMeter> {
    await using opened = new AsyncDisposableStack();
    const versions = versionsOf(firmware);
    const service = opened.use(await startStandIn({ versions, currentVersionId: 'v0' }));
    const avr = { bootloader: 'optiboot', pageMs, contents: meters.old.memory } as const;
    const meter = opened.use(await SimulatedAvr.start(isRoot ? { ...avr, user: agentUser } : avr));
    if (isRoot) await lendToDialout(meter.port);
    const gateway = opened.use(await FileGateway.create(optionsOf(service, meter)));
    const helper = await gateway.startHelper();
    return new TwoProcessesWithMeter({ service, meter, gateway, helper }, opened.move());
  }

  async configure(more: Partial<FileGatewayOptions>): Promise<void> {
    await this.gateway.configure({ ...optionsOf(this.service, this.meter), ...more });
  }

  async startHelper(): Promise<void> {
    this.helper = await this.gateway.startHelper();
  }

  /** A file that a person brings, and no update besides; unsigned ones are permitted. */
  async bringFile(): Promise<string> {
    const file = join(this.gateway.directory, 'meter-2.hex');
    await writeFile(file, meters.new.hex);
    await this.configure({ trustedKey: undefined, updateToml: 'follow = "none"' });
    return file;
  }

  /** What gateway and meter run, and what the service heard in the end. */
  async state(): Promise<unknown> {
    const { service, gateway, meter } = this;
    const reported = service.world.things[0]?.properties.get('update_outcome') as { code?: string } | undefined;
    const system = gateway.imageBeginsWith(gateway.booted, 'healthy 1') ? 'new' : 'old';
    return { gateway: system, meter: await programOf(meter), code: reported?.code };
  }

  /** Stages the version and boots into its trial. */
  async tryVersion(version: string): Promise<void> {
    this.service.world.targetVersionId = version;
    const { exitCode, stderr } = await this.gateway.run('--update-now');
    if (exitCode !== 0 || this.gateway.boot() !== 'B') throw new Error(`${version} is not on trial: ${stderr}`);
  }

  /** The daemon settles, and then looks: who asks joins the first, and then the second, or makes a round of their own. */
  async startRestedDaemon(): Promise<ChildProcess> {
    const daemon = await this.gateway.startDaemon();
    for (let rounds = 0; rounds < 2; rounds += 1) await this.gateway.run('--update-now');
    return daemon;
  }

  /** Does something as soon as the first pages of the meter are written; resolves when the command has ended. */
  async whileFlashing(args: readonly string[], strike: (child: ChildProcess) => unknown): Promise<number | null> {
    const child = this.gateway.spawn([...args, '--json']);
    const ended = once(child, 'close') as Promise<[number | null]>;
    let isStruck = false;
    createInterface({ input: child.stdout as Readable }).on('line', (line) => {
      const { step, doneBytes = 0 } = JSON.parse(line) as { step?: string; doneBytes?: number };
      if (isStruck || step !== 'writing' || doneBytes === 0) return;
      isStruck = true;
      strike(child);
    });
    const [exitCode] = await ended;
    if (!isStruck) throw new Error(`it ended with ${exitCode} before the meter was written`);
    return exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

function optionsOf(service: StandIn, meter: SimulatedAvr): FileGatewayOptions {
  const extraToml = boardsToml(meter);
  const trustedKey = keys.publicPem;
  return { serviceUrl: service.url, image: OLD, slotBytes: 200_000, trustedKey, extraToml, agentUser };
}
