import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { agentProgram } from '../../fakes/machine/built-agent.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import { DEVICE_TYPE } from './gateway-rig.ts';
import type { GatewayRig } from './gateway-rig.ts';

/** `first` is trusted by every image of the rig. */
type KeyName = 'first' | 'next' | 'thief';

/** Makes releases and trust lists with `agent artifact trust` and mender-artifact, according to README.md. */
export class ReleaseDesk implements AsyncDisposable {
  readonly keys;
  readonly #rig: GatewayRig;
  readonly #folder: string;

  private constructor(rig: GatewayRig, folder: string) {
    this.#rig = rig;
    this.#folder = folder;
    this.keys = { first: rig.keys, next: makeKeyPair('rsa'), thief: makeKeyPair('ecdsa-p256') };
  }

  static async open(rig: GatewayRig): Promise<ReleaseDesk> {
    const desk = new ReleaseDesk(rig, await mkdtemp(join(tmpdir(), 'release-desk-')));
    for (const [name, { privatePem, publicPem }] of Object.entries(desk.keys)) {
      await writeFile(desk.file(`${name}.key`), privatePem);
      await writeFile(desk.file(`${name}.pem`), publicPem);
    }
    return desk;
  }

  file(name: string): string {
    return join(this.#folder, name);
  }

  /** Makes a signed trust list, with options of `agent artifact trust`. */
  async list(number: number, key: KeyName, ...options: readonly string[]): Promise<string> {
    const name = `trust-${number}`;
    const file = this.file(`${name}-${key}.json`);
    await rm(file, { force: true });
    await tool([agentProgram(), 'artifact', 'trust', file, '--number', String(number), ...options]);
    return this.#sign(name, key, ['module-image', '--type', 'thing-trust', '--file', file]);
  }

  /** Makes a signed root file system of this version, with options of mender-artifact. */
  async release(version: string, key: KeyName, ...options: readonly string[]): Promise<string> {
    const image = await this.#rig.images.image({ '/etc/app-version': version });
    const artifact = await this.#sign(version, key, ['rootfs-image', '--file', image, ...options]);
    await rm(image);
    return artifact;
  }

  /** A signed delta from one image to another. */
  async delta(version: string, base: string, result: string): Promise<string> {
    const output = this.file(`${version}.delta.mender`);
    const naming = ['--name', version, '--device-type', DEVICE_TYPE];
    const signing = ['--key', this.file('first.key'), '--output', output];
    await tool([agentProgram(), 'artifact', 'delta', base, result, ...naming, ...signing]);
    return output;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }

  async #sign(name: string, key: KeyName, [kind = '', ...contents]: readonly string[]): Promise<string> {
    const output = this.file(`${name}-${key}.mender`);
    const naming = ['--artifact-name', name, '--device-type', DEVICE_TYPE, '--compression', 'none'];
    const signing = ['--key', this.file(`${key}.key`), '--output-path', output];
    await tool(['mender-artifact', 'write', kind, ...naming, ...contents, ...signing]);
    return output;
  }
}
