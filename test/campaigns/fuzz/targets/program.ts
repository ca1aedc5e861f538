import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import fc from 'fast-check';

import { exitCodes } from '../../../../src/system/errors.ts';
import { anyCharacter } from '../../../any-character.ts';
import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { operations } from '../../../fakes/service/faults.ts';
import type { FaultInput } from '../../../fakes/service/faults.ts';
import { bufferContent } from '../../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../../fakes/service/stand-in.ts';
import { buildArtifact } from '../../../unit-and-integration/firmware/artifact/build-artifact.ts';
import { makeKeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import { edited, edits, mutatedText } from '../mutation.ts';
import type { Edit } from '../mutation.ts';
import { openTarget } from '../target.ts';
import type { CaseOf, FuzzTarget } from '../target.ts';

const IMAGE_BYTES = 100_000;
const SLOT_BYTES = 256 * 1024;
const known = new Set<number | null>(Object.values(exitCodes));

const fault: fc.Arbitrary<FaultInput> = fc.oneof(
  mutatedText(fc.constantFrom('{"id":"v1","name":"one"}', '{"thingId":"t","apiKey":"k"}', '"QUJD"', '[]')).map(
    (text) => ({
      kind: 'body' as const,
      text,
    }),
  ),
  fc.record({
    kind: fc.constant('status' as const),
    status: fc.constantFrom(201, 204, 301, 400, 401, 403, 404, 409, 410),
  }),
  fc.record({ kind: fc.constant('page' as const), labeled: fc.boolean() }),
  fc.record({ kind: fc.constant('huge' as const), bytes: fc.integer({ min: 0, max: 3_000_000 }) }),
  fc.record({ kind: fc.constant('truncate' as const), afterBytes: fc.nat({ max: 100_000 }) }),
  fc.record({
    kind: fc.constant('change-firmware' as const),
    at: fc.nat({ max: IMAGE_BYTES }),
    keepEtag: fc.boolean(),
  }),
);

const cases = fc.oneof(
  fc.record({
    kind: fc.constant('service' as const),
    operation: fc.constantFrom(...operations, 'any' as const),
    fault,
    command: fc.constantFrom('--update-now --no-reboot', 'check', 'activate', 'property get p', 'property set p 1'),
  }),
  fc.record({ kind: fc.constant('file' as const), edits }),
  fc.record({
    kind: fc.constant('config' as const),
    edits,
    command: fc.constantFrom('config check', 'config show'),
  }),
  fc.record({
    kind: fc.constant('handler' as const),
    says: fc.string({ unit: anyCharacter, maxLength: 30 }),
    command: fc.constantFrom('status', 'doctor', '--update-now'),
  }),
);

/** The real program in a terminal: a known exit code, no stack trace, and no change to a slot that boots. */
export const program: FuzzTarget = {
  name: 'program',
  maxCaseMs: 60_000,
  open: async () => {
    const bench = await ProgramBench.create();
    return openTarget(
      cases,
      async (input) => bench.check(input),
      async () => bench[Symbol.asyncDispose](),
    );
  },
};

type Case = CaseOf<typeof cases>;

class ProgramBench implements AsyncDisposable {
  readonly #gateway: FileGateway;
  readonly #service: Awaited<ReturnType<typeof startStandIn>>;
  readonly #artifact: Buffer;
  readonly #images: readonly [Buffer, Buffer];
  readonly #originals = new Map<string, Buffer>();

  private constructor(
    gateway: FileGateway,
    service: Awaited<ReturnType<typeof startStandIn>>,
    firmware: { readonly artifact: Buffer; readonly images: readonly [Buffer, Buffer] },
  ) {
    this.#gateway = gateway;
    this.#service = service;
    this.#artifact = firmware.artifact;
    this.#images = firmware.images;
  }

  static async create(): Promise<ProgramBench> {
    const keys = makeKeyPair('ecdsa-p256', 'release.pem');
    const images = [Buffer.alloc(IMAGE_BYTES, 'healthy old '), Buffer.alloc(IMAGE_BYTES, 'healthy new ')] as const;
    const files = [{ name: 'rootfs.ext4', content: images[1] }];
    const artifact = await buildArtifact({ name: 'one', devices: ['demo-gateway'], files, key: keys.privateKey });
    const service = await startStandIn({ versions: [{ id: 'v1', firmware: bufferContent(artifact) }] });
    const gateway = await FileGateway.create({
      serviceUrl: service.url,
      image: images[0],
      slotBytes: SLOT_BYTES,
      trustedKey: keys.publicPem,
    });
    const bench = new ProgramBench(gateway, service, { artifact, images });
    for (const name of ['config.toml', 'boot/handler']) {
      bench.#originals.set(name, await readFile(join(gateway.directory, name)));
    }
    return bench;
  }

  async check(input: Case): Promise<void> {
    await this.#reset();
    const { exitCode, stdout, stderr } = await this.#gateway.runApart(...(await this.#prepare(input)));
    const said = `${stdout}${stderr}`;
    if (!known.has(exitCode)) throw new Error(`exit ${exitCode}: ${said}`);
    if (/\n\s+at .*:\d+:\d+|unexpected failure|internal-error/.test(said))
      throw new Error(`a person would see: ${said}`);
    const [old, next] = this.#images;
    if (!(await this.#gateway.imageOf('A', IMAGE_BYTES)).equals(old)) throw new Error('slot A has changed');
    const environment = await readFile(join(this.#gateway.directory, 'boot/environment'), 'latin1').catch(() => '');
    const mayBoot = /B_LEFT=[1-9]/.test(environment);
    if (mayBoot && !(await this.#gateway.imageOf('B', IMAGE_BYTES)).equals(next)) throw new Error('slot B may boot');
  }

  async #reset(): Promise<void> {
    const { directory } = this.#gateway;
    this.#service.clearFaults();
    this.#service.world.addVersion({ id: 'v1', firmware: bufferContent(this.#artifact) });
    for (const name of ['state', 'boot/environment']) await rm(join(directory, name), { recursive: true, force: true });
    for (const [name, content] of this.#originals) await writeFile(join(directory, name), content);
    this.#gateway.boot();
  }

  /** Returns what is typed. */
  async #prepare(input: Case): Promise<readonly string[]> {
    const { directory } = this.#gateway;
    switch (input.kind) {
      case 'service':
        this.#service.fail({ operation: input.operation, fault: input.fault });
        return input.command.split(' ');
      case 'file': {
        const path = join(directory, 'from-usb');
        await writeFile(path, edited(this.#artifact, input.edits));
        return ['install', path, '--no-reboot'];
      }
      case 'config':
        await writeFile(join(directory, 'config.toml'), this.#editedConfig(input.edits));
        return input.command.split(' ');
      case 'handler':
        await writeFile(join(directory, 'boot/said'), input.says);
        await writeFile(join(directory, 'boot/handler'), `#!/bin/sh\ncat '${directory}/boot/said'\n`);
        return input.command.split(' ');
    }
  }

  /** Keeps the paths of its files: an edited path would be the machine's. */
  #editedConfig(changes: readonly Edit[]): string {
    const text = this.#originals.get('config.toml')?.toString('utf8') ?? '';
    const { directory } = this.#gateway;
    const edit = edited(Buffer.from(text.replaceAll(directory, '@')), changes).toString('utf8');
    return edit.replaceAll('"@', `"${directory}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#gateway[Symbol.asyncDispose]();
    await this.#service[Symbol.asyncDispose]();
  }
}
