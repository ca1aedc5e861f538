import { mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import * as z from 'zod';

import { claimsOf } from '../../../src/firmware/delta/encode.ts';
import { FileGateway } from '../../fakes/machine/file-gateway.ts';
import { bufferContent, randomContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { buildArtifact } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import type { PayloadOptions } from '../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import { deltaOf } from '../../unit-and-integration/firmware/delta/delta-bench.ts';
import { Ledger } from './ledger.ts';
import { MachineView } from './machine-view.ts';
import { MortalDisk } from './mortal-disk.ts';
import { GatewayProcesses } from './processes.ts';
import { runAgent } from './strike.ts';
import type { Aftermath, RunEnd, RunOptions } from './strike.ts';

/** Not a whole number of pages, so that the last one is torn if anything is. */
const IMAGE_BYTES = 200_003;
const SLOT_BYTES = 1024 * 1024;

/** The property for that request. */
const WANTED_WHOLE = 'wanted_whole';
const wanted = z.object({ versions: z.array(z.string()) });

/** Length of the text, which is a third longer than the image. */
const CUT_BYTES = 150_000;

export type Firmware =
  | 'good'
  /** The same, as a delta of the running version at the time of publication. */
  | 'delta'
  /** Signed, and its application does not work. */
  | 'unhealthy'
  /** Signed, and the agent never starts there. */
  | 'dead'
  /** The content differs from the signed one. */
  | 'tampered'
  /** Signed by a foreign key. */
  | 'foreign';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
const stranger = makeKeyPair('ecdsa-p256', 'stranger.pem');

/** A gateway that can be killed, rebooted and cut off at any moment, its service, and what is known of both. */
export class Rig implements AsyncDisposable {
  readonly service: StandIn;
  readonly gateway: FileGateway;
  readonly view: MachineView;
  readonly ledger: Ledger;
  readonly #disk: MortalDisk;
  readonly #processes: GatewayProcesses;
  readonly #resources: AsyncDisposable;
  #versions = 0;
  /** Releases that the service has as deltas, by id. */
  readonly #wholes = new Map<string, Buffer>();

  private constructor(service: StandIn, gateway: FileGateway, disk: MortalDisk, resources: AsyncDisposable) {
    this.service = service;
    this.gateway = gateway;
    this.view = new MachineView(gateway, IMAGE_BYTES);
    this.ledger = new Ledger(service);
    this.#disk = disk;
    this.#processes = new GatewayProcesses(`RUNTIME_DIRECTORY=${join(gateway.directory, 'run')}`);
    this.#resources = resources;
  }

  static async create(): Promise<Rig> {
    await using stack = new AsyncDisposableStack();
    const service = stack.use(await startStandIn({ versions: [{ id: 'factory' }], keyRequired: 'everything' }));
    const disk = stack.use(await MortalDisk.create(SLOT_BYTES));
    const factory = imageBytes('healthy', 0);
    const gateway = stack.use(
      await FileGateway.create({
        serviceUrl: service.url,
        image: factory,
        slotBytes: SLOT_BYTES,
        trustedKey: keys.publicPem,
        slots: disk.slots,
        directory: disk.folder,
        healthDeadline: '5s',
        updateToml: 'schedule = "0 0 1 1 *"',
        reports: false,
        extraToml: `[report]\noutcome = "update_outcome"\nfull_image = "${WANTED_WHOLE}"\n`,
      }),
    );
    mkdirSync(join(gateway.directory, 'state'), { mode: 0o700 });
    await disk.flush();
    const rig = new Rig(service, gateway, disk, stack.move());
    rig.view.add({ label: 'factory', bytes: factory, isGood: true });
    return rig;
  }

  /** A version that never was there before; returns its id, which is its name, too. */
  async publish(firmware: Firmware): Promise<string> {
    const { id, artifact } = await this.#make(firmware);
    this.service.world.addVersion({ id, firmware: bufferContent(artifact) });
    this.service.world.targetVersionId = id;
    return id;
  }

  /** The next transfer is interrupted in the middle of its payload, and a login page answers the resumed request. */
  cutLineOnce(): void {
    this.service.fail({ operation: 'firmware', fault: { kind: 'reset', afterBytes: CUT_BYTES } });
    this.service.fail({ operation: 'firmware', fault: { kind: 'body', text: '<html>' }, ranged: true });
  }

  /** A file as on a USB stick. */
  async usbStick(firmware: Firmware): Promise<{ readonly path: string; readonly label: string }> {
    const { id, artifact } = await this.#make(firmware);
    const path = join(this.gateway.directory, 'from-usb.mender');
    await writeFile(path, artifact);
    return { path, label: id };
  }

  /** Replaces a delta by the full image after a base mismatch. True if there was one. */
  giveWhole(): boolean {
    const said = wanted.safeParse(this.service.world.things[0]?.properties.get(WANTED_WHOLE));
    const found = said.data?.versions.filter((id) => this.#wholes.has(id)) ?? [];
    for (const id of found) {
      this.service.world.addVersion({ id, firmware: bufferContent(this.#wholes.get(id) ?? Buffer.alloc(0)) });
      this.#wholes.delete(id);
    }
    return found.length > 0;
  }

  run(options: RunOptions): Promise<RunEnd> {
    return runAgent(this.gateway, options);
  }

  /** After a strike: what the machine is like when the agent may run again. */
  async recover(aftermath: Aftermath): Promise<void> {
    if (aftermath === 'restart') return;
    await this.#processes.freeze();
    const image = aftermath === 'power-cut' ? await this.#disk.snapshot() : undefined;
    await this.#processes.kill();
    if (image !== undefined) await this.#disk.restart(image);
    this.gateway.boot();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#processes.kill();
    await this.#resources[Symbol.asyncDispose]();
  }

  async #make(firmware: Firmware): Promise<{ readonly id: string; readonly artifact: Buffer }> {
    this.#versions += 1;
    const id = `${firmware}-${this.#versions}`;
    const health = firmware === 'unhealthy' || firmware === 'dead' ? firmware : 'healthy';
    const random = imageBytes(health, this.#versions);
    const base = firmware === 'delta' ? this.view.imageIn(this.view.booted)?.bytes : undefined;
    const content = base === undefined ? random : changed(base, random);
    const key = firmware === 'foreign' ? stranger.privateKey : keys.privateKey;
    const payload =
      base === undefined ? { files: [{ name: 'rootfs.ext4', content }] } : await deltaPayload(base, content);
    const options = { name: id, devices: ['demo-gateway'], key };
    const artifact = await buildArtifact({ ...options, ...payload });
    const whole = { ...options, files: [{ name: 'rootfs.ext4', content }] };
    if (base !== undefined) this.#wholes.set(id, await buildArtifact(whole));
    if (firmware === 'tampered') artifact.fill('X', artifact.byteLength - 50_000, artifact.byteLength - 49_990);
    if (firmware !== 'tampered' && firmware !== 'foreign') {
      this.view.add({ label: id, bytes: content, isGood: isGood(firmware) });
    }
    return { id, artifact };
  }
}

export function isGood(firmware: Firmware): boolean {
  return firmware === 'good' || firmware === 'delta';
}

/**
 * A part of each window is unchanged, so that a delta of it is as long as the offset at which connections are
 * interrupted.
 */
const WINDOW_BYTES = 32 * 1024;
const STAYS_BYTES = 4 * 1024;

function changed(base: Buffer, random: Buffer): Buffer {
  const bytes = Buffer.from(random);
  for (let at = WINDOW_BYTES - STAYS_BYTES; at < bytes.byteLength; at += WINDOW_BYTES) {
    base.copy(bytes, at, at, at + STAYS_BYTES);
  }
  return bytes;
}

async function deltaPayload(base: Buffer, result: Buffer): Promise<PayloadOptions> {
  const files = [{ name: 'root.delta', content: await deltaOf(base, result, WINDOW_BYTES) }];
  return { files, deltas: { 'root.delta': claimsOf(base, result) } };
}

function imageBytes(health: string, number: number): Buffer {
  const bytes = Buffer.from(randomContent(IMAGE_BYTES, number).read(0, IMAGE_BYTES));
  bytes.write(`${health} ${number}\n`, 'latin1');
  return bytes;
}
