import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import type { FileGatewayOptions, Finished } from '../../../fakes/machine/file-gateway.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import type { StandIn } from '../../../fakes/service/stand-in.ts';
import { makeKeyPair } from '../../firmware/artifact/keys.ts';

const keys = makeKeyPair('ecdsa-p256', 'release.pem');
export const MIB = 1024 * 1024;
const SLOT_BYTES = 12 * MIB;

/** Most of it stays from version to version; of no size that a page divides. */
const common = randomBytes(5 * MIB + 777);

function rootOf(version: string, own: Uint8Array = Buffer.alloc(3000, version)): Buffer {
  return Buffer.concat([Buffer.from(`healthy root ${version}\n`), own, common]);
}

export const images: Readonly<Record<string, Buffer>> = {
  '0': rootOf('0'),
  '1': rootOf('1'),
  '2': rootOf('2'),
  '3': rootOf('3', randomBytes(4 * MIB)),
};

/** A gateway that runs image 0, and a folder of a release machine with all images. */
export class DeltaGateway implements AsyncDisposable {
  readonly folder: string;
  readonly service: StandIn;
  readonly gateway: FileGateway;
  readonly #opened: AsyncDisposableStack;

  private constructor(folder: string, service: StandIn, gateway: FileGateway, opened: AsyncDisposableStack) {
    this.folder = folder;
    this.service = service;
    this.gateway = gateway;
    this.#opened = opened;
  }

  static async create(): Promise<DeltaGateway> {
    await using opened = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'deltas-'));
    opened.defer(async () => rm(folder, { recursive: true, force: true }));
    await writeFile(join(folder, 'private.pem'), keys.privatePem);
    for (const [version, image] of Object.entries(images)) await writeFile(join(folder, `${version}.img`), image);
    const service = opened.use(await startStandIn({ versions: [{ id: 'v0' }], targetVersionId: 'v0' }));
    const gateway = opened.use(await FileGateway.create(optionsOf(service)));
    return new DeltaGateway(folder, service, gateway, opened.move());
  }

  async configure(more: Partial<FileGatewayOptions>): Promise<void> {
    await this.gateway.configure({ ...optionsOf(this.service), ...more });
  }

  /** As a release machine makes it. */
  async delta(from: string, to: string): Promise<Buffer> {
    const { folder, gateway } = this;
    const output = join(folder, `${from}-${to}.mender`);
    const [base, result] = [join(folder, `${from}.img`), join(folder, `${to}.img`)];
    const naming = this.#naming('--name', to);
    const made = await gateway.run('artifact', 'delta', base, result, ...naming, '--output', output);
    if (made.exitCode !== 0) throw new Error(made.stderr);
    await tool(['mender-artifact', 'validate', output, '-k', join(gateway.directory, 'release.pem')]);
    return readFile(output);
  }

  async whole(version: string): Promise<Buffer> {
    const output = join(this.folder, `${version}.mender`);
    const file = join(this.folder, `${version}.img`);
    const contents = ['--compression', 'none', '--file', file, '--output-path', output];
    const naming = this.#naming('--artifact-name', version);
    await tool(['mender-artifact', 'write', 'rootfs-image', ...naming, ...contents]);
    return readFile(output);
  }

  #naming(name: string, version: string): readonly string[] {
    return ['--device-type', 'demo-gateway', '--key', join(this.folder, 'private.pem'), name, version];
  }

  /** The service wants the gateway to run it; under an id of its own, as a release has. */
  offer(version: string, id: string, artifact: Buffer): void {
    this.service.world.addVersion({ id, name: version, firmware: bufferContent(artifact) });
    this.service.world.targetVersionId = id;
  }

  async settle(): Promise<Finished> {
    const done = await this.gateway.run('--update-now');
    if (!this.gateway.rebootRequested) return done;
    this.gateway.boot();
    return this.gateway.run('--update-now');
  }

  async runs(version: string): Promise<boolean> {
    const image = images[version] ?? Buffer.alloc(0);
    return image.equals(await this.gateway.imageOf(this.gateway.booted, image.byteLength));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

function optionsOf(service: StandIn): FileGatewayOptions {
  return {
    serviceUrl: service.url,
    image: rootOf('0'),
    slotBytes: SLOT_BYTES,
    trustedKey: keys.publicPem,
    updateToml: 'follow = "target"',
    healthService: false,
  };
}
