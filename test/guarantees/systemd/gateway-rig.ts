import { existsSync, statSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { bootIdFile, fwEnvConfig, NspawnGateway, slotDevices } from '../../fakes/machine/booting/nspawn-gateway.ts';
import { selfCheck } from '../../fakes/machine/booting/self-check.ts';
import { SlotImages } from '../../fakes/machine/booting/slot-images.ts';
import type { Difference, SlotImagesOptions } from '../../fakes/machine/booting/slot-images.ts';
import { builtTree } from '../../fakes/machine/built-agent.ts';
import { fileContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import type { KeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';

/** The content of slot A when a gateway leaves the factory. */
export const FACTORY = 'v0';
export const DEVICE_TYPE = 'test-gateway';
/** In gateways whose images have none: the runtime of this run, which is not installed with each update. */
const RUNTIME = '/opt/runtime';
const CACHE = '/var/cache/thing-agent';

export interface ConfigTexts {
  /** `[update] health`. */
  readonly health?: string;
  /** `[update] trial_attempts`. */
  readonly trials?: number;
  /** More TOML, in tables of its own. */
  readonly extra?: string;
}

export interface GatewaySetup {
  /** Directories of the host that are seen in the container: place there → place here. */
  readonly binds?: Readonly<Record<string, string>>;
  /** Difference between the image in slot A and the other images. */
  readonly difference?: Difference;
  /** Another image for slot A. The caller owns it. */
  readonly image?: string;
}

/** All rigs of a test run make their images from one, next to the tree that was built for it. */
async function openImages(recipe: SlotImagesOptions, tree: string | undefined): Promise<SlotImages> {
  if (tree === undefined) return SlotImages.open(recipe);
  const kept = join(dirname(tree), 'gateway.ext4');
  if (!existsSync(kept)) {
    await using images = await SlotImages.open(recipe);
    await rename(images.base, kept);
  }
  return SlotImages.open({ ...recipe, kept });
}

/** A stand-in of the service, images with the installed agent, and gateways that boot them; disposed as a whole. */
export class GatewayRig implements AsyncDisposable {
  readonly service: StandIn;
  readonly images: SlotImages;
  /** Trusted by every image. */
  readonly keys: KeyPair;
  readonly #binds: Readonly<Record<string, string>>;
  readonly #opened: AsyncDisposableStack;
  #closeOffer = (): void => {};

  private constructor(
    parts: Pick<GatewayRig, 'service' | 'images' | 'keys'>,
    binds: Readonly<Record<string, string>>,
    opened: AsyncDisposableStack,
  ) {
    this.#binds = binds;
    this.service = parts.service;
    this.images = parts.images;
    this.keys = parts.keys;
    this.#opened = opened;
  }

  static async open(): Promise<GatewayRig> {
    await using opened = new AsyncDisposableStack();
    const service = opened.use(await startStandIn({ versions: [{ id: FACTORY }], currentVersionId: FACTORY }));
    const keys = makeKeyPair('ecdsa-p256');
    const ownFiles = {
      '/etc/thing-agent/config.toml': configText(service.url),
      '/etc/thing-agent/trust/release.pem': keys.publicPem,
    };
    const files = {
      '/etc/fw_env.config': fwEnvConfig,
      '/etc/systemd/system/thing-agent-trial.service.d/machine.conf': `[Service]\nEnvironment=BOOT_ID_FILE=${bootIdFile}\n`,
      '/usr/lib/app/healthy': '#!/bin/sh\n',
    };
    const tree = builtTree();
    const recipe = { files, ownFiles, keys, deviceType: DEVICE_TYPE, ...(tree !== undefined && { runtime: RUNTIME }) };
    const images = opened.use(await openImages(recipe, tree));
    const cache = await mkdtemp(join(tmpdir(), 'gateway-cache-'));
    opened.defer(async () => rm(cache, { recursive: true }));
    // V8's compiled code is available at the next boot, as on a gateway that keeps /var/cache.
    const binds = { [CACHE]: cache, ...(tree !== undefined && { [RUNTIME]: join(tree, 'bin') }) };
    return new GatewayRig({ service, images, keys }, binds, opened.move());
  }

  configText(texts: ConfigTexts = {}): string {
    return configText(this.service.url, texts);
  }

  /** Fresh from the factory; it has found that the service, which never heard of it, wants no other version. */
  async gateway({ binds = {}, difference = {}, image: given }: GatewaySetup = {}): Promise<NspawnGateway> {
    const { world, calls } = this.service;
    world.things.length = 0;
    world.targetVersionId = undefined;
    calls.length = 0;
    const image = given ?? (await this.images.image({ '/etc/app-version': FACTORY, ...difference }));
    const slotBytes = statSync(image).size;
    const gateway = await NspawnGateway.create({
      image,
      version: FACTORY,
      slotBytes,
      binds: { ...this.#binds, ...binds },
    });
    if (given === undefined) await rm(image);
    gateway.powerOn();
    try {
      await gateway.console.until(/agent started/);
      await gateway.console.until(/checking/);
      await gateway.console.until(/Nothing to do: v0 is installed/);
      await selfCheck(async (...command) => gateway.tell(...command));
      return gateway;
    } catch (error) {
      await gateway[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Offers this version, which has its own image, and withdraws the previous offer. */
  async offer(version: string, difference: Difference = {}, options: readonly string[] = []): Promise<void> {
    await this.offerArtifact(
      version,
      await this.images.artifact(version, { '/etc/app-version': version, ...difference }, options),
    );
  }

  /** The same of an artifact that is there, which is removed. */
  async offerArtifact(version: string, artifact: string): Promise<void> {
    this.#closeOffer();
    const content = fileContent(artifact);
    await rm(artifact);
    this.#closeOffer = () => content.close?.();
    const firmware = {
      sizeBytes: content.sizeBytes,
      read: (offset: number, length: number) => content.read(offset, length),
    };
    this.service.world.addVersion({ id: version, firmware });
    this.service.world.targetVersionId = version;
  }

  /** The reports of the ends of attempts, as the service got them. */
  get reports(): readonly unknown[] {
    return this.service
      .callsOf('setProperty')
      .filter(({ path, status }) => path.includes('update_outcome') && status === 204)
      .map(({ body }) => JSON.parse(body) as unknown);
  }

  get currentVersion(): string | undefined {
    return this.service.world.things[0]?.currentVersionId;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closeOffer();
    await this.#opened[Symbol.asyncDispose]();
  }
}

function configText(url: string, texts: ConfigTexts = {}): string {
  const {
    health = '{ deadline = "30s", user = "nobody", commands = [["/usr/lib/app/healthy"]] }',
    trials = 1,
    extra = '',
  } = texts;
  return `
[service]
url = "${url}"

[device]
serial_number = "GW-0001"
device_type = "${DEVICE_TYPE}"

[update]
splay = "0s"
schedule = "0 0 1 1 *"
health = ${health}
trial_attempts = ${trials}
# A firmware that never comes up is not told from a power that fails; here the first time is enough.
max_attempts = 1

[trust]
keys = ["/etc/thing-agent/trust/release.pem"]

[report]
outcome = "update_outcome"

[system]
boot_id_file = "${bootIdFile}"

[targets.gateway]
kind = "slots"
slots = { A = "${slotDevices.A}", B = "${slotDevices.B}" }
bootloader = { kind = "uboot" }
${extra}
`;
}
