import { createHash } from 'node:crypto';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { FileGateway } from '../../../fakes/machine/file-gateway.ts';
import { tool } from '../../../fakes/machine/tool.ts';
import { makeKeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import type { KeyPair } from '../../../unit-and-integration/firmware/artifact/keys.ts';
import type { BenchContext } from '../context.ts';
import { measurementsOf } from '../figures.ts';
import type { Figure, SuiteResult } from '../figures.ts';
import { measure } from '../measure.ts';
import type { Cost } from '../measure.ts';
import { inRounds, ratioOf, spreadOf } from '../statistics.ts';
import type { Contender, Spread } from '../statistics.ts';
import { makeDeltaImages, pairs } from './delta-images.ts';
import type { DeltaImages, Pair } from './delta-images.ts';

const BLOCK_BYTES = 4096;
const DIGEST_BYTES = 32;
/** Target compared with the compressed full image. */
const TARGET_RATIO: Readonly<Record<Pair, number | undefined>> = {
  security: undefined,
  point: 0.08,
  application: 0.08,
};
const TARGET_MEMORY_MIB = 24;

interface Rig extends BenchContext {
  readonly images: DeltaImages;
  readonly keys: KeyPair;
  readonly keyFile: string;
}

/**
 * Savings and costs of a delta for three updates of Debian, compared with the full image, xdelta3, and an index of
 * blocks.
 */
export async function deltaSuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, tell } = context;
  await tool([join(import.meta.dirname, '../peers/install-peers')], { timeoutMs: 600_000 });
  const keys = makeKeyPair('ecdsa-p256', 'release.pem');
  const keyFile = join(workFolder, 'private.pem');
  await writeFile(keyFile, keys.privatePem, { mode: 0o600 });
  const rig: Rig = { ...context, images: await makeDeltaImages(tell), keys, keyFile };
  const costs = new Map<string, readonly Cost[]>();
  const figures: Figure[] = [];
  for (const pair of pairs) {
    const found = await comparePair(rig, pair);
    for (const [name, all] of found.costs) costs.set(`${pair}: ${name}`, all);
    figures.push(...found.figures);
  }
  return { suite: 'delta', measurements: measurementsOf(costs), figures };
}

const names = {
  whole: 'agent, whole image, gzip',
  delta: 'agent, delta',
  make: 'agent artifact delta',
  encode: 'xdelta3 -9 -e',
  decode: 'xdelta3 -d',
} as const;

interface Compared {
  readonly costs: ReadonlyMap<string, readonly Cost[]>;
  readonly figures: readonly Figure[];
}

async function comparePair(rig: Rig, pair: Pair): Promise<Compared> {
  const { images, workFolder, program, keyFile, rounds, tell } = rig;
  const at = (name: string): string => join(workFolder, `${pair}.${name}`);
  const [base, result] = [images.base, images[pair]];
  const about = ['--device-type', 'demo-gateway', '--key', keyFile];
  const whole = ['--artifact-name', '2', '--compression', 'gzip', '--file', result, '--output-path', at('whole')];
  await tool(['mender-artifact', 'write', 'rootfs-image', ...about, ...whole], { timeoutMs: 600_000 });
  const order = ['--name', '2', ...about, '--output', at('delta')];
  const made = await measure({ argv: [program, 'artifact', 'delta', base, result, ...order] }, workFolder);
  const encode = ['xdelta3', '-9', '-e', '-f', '-s', base, result, at('xdelta')] as const;
  const encoded = await measure({ argv: encode }, workFolder);
  const decode = ['xdelta3', '-d', '-f', '-s', base, at('xdelta'), at('decoded')] as const;
  const contenders: readonly Contender<Cost>[] = [
    { name: names.whole, run: async () => install(rig, at('whole')) },
    { name: names.delta, run: async () => install(rig, at('delta')) },
    { name: names.decode, run: async () => measure({ argv: decode, on: rig.on }, workFolder) },
  ];
  const found = await inRounds(contenders, rounds, (line) => tell(`${pair}: ${line}`));
  const costs = new Map([[names.make, [made]], [names.encode, [encoded]], ...found]);
  const sizes = { ...(await sizesOf(at)), blocks: await missingBytes(base, result) };
  return { costs, figures: [...sizeFigures(pair, sizes), ...costFigures(pair, found)] };
}

/** Into slot B of a gateway that runs the base, without the reboot. */
async function install({ images, keys, program, workFolder, on }: Rig, artifact: string): Promise<Cost> {
  const image = await readFile(images.base);
  await using gateway = await FileGateway.create({
    serviceUrl: 'http://127.0.0.1:9',
    image,
    slotBytes: image.byteLength,
    trustedKey: keys.publicPem,
    updateToml: 'follow = "none"',
    reports: false,
    healthService: false,
    program,
  });
  const argv = [program, '--config', gateway.configFile, 'install', artifact, '--no-reboot'] as const;
  return await measure({ argv, on }, workFolder);
}

type Sizes = Readonly<Record<'whole' | 'delta' | 'xdelta' | 'blocks', number>>;

async function sizesOf(at: (name: string) => string): Promise<Omit<Sizes, 'blocks'>> {
  const [whole = 0, delta = 0, xdelta = 0] = await Promise.all(
    ['whole', 'delta', 'xdelta'].map(async (name) => (await stat(at(name))).size),
  );
  return { whole, delta, xdelta };
}

/**
 * Bytes that a client with an index of the image's blocks and the base downloads: as RAUC's adaptive mode does,
 * uncompressed.
 */
async function missingBytes(base: string, result: string): Promise<number> {
  const known = new Set(digestsOf(await readFile(base)));
  const wanted = digestsOf(await readFile(result));
  const missing = new Set(wanted.filter((digest) => !known.has(digest)));
  return missing.size * BLOCK_BYTES + wanted.length * DIGEST_BYTES;
}

function digestsOf(image: Buffer): readonly string[] {
  return Array.from({ length: Math.ceil(image.byteLength / BLOCK_BYTES) }, (_, index) => {
    const block = image.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES);
    return createHash('sha256').update(block).digest('base64');
  });
}

function sizeFigures(pair: Pair, sizes: Sizes): readonly Figure[] {
  const of = (name: string, sizeBytes: number, target?: number): Figure => ({
    name: `${pair}: ${name}, of the whole one with gzip`,
    unit: '×',
    value: spreadOf([sizeBytes / sizes.whole]),
    target,
    how: `${sizeBytes} of ${sizes.whole} bytes`,
  });
  return [
    of('the delta', sizes.delta, TARGET_RATIO[pair]),
    of('xdelta3 -9', sizes.xdelta),
    of('blocks of 4 KiB that the base does not have, and their index', sizes.blocks),
  ];
}

function costFigures(pair: Pair, costs: ReadonlyMap<string, readonly Cost[]>): readonly Figure[] {
  const of = (name: string, what: keyof Cost): readonly number[] => (costs.get(name) ?? []).map((cost) => cost[what]);
  const memory = of(names.delta, 'peakRssMib').map(
    (value, round) => value - (of(names.whole, 'peakRssMib')[round] ?? NaN),
  );
  const ratio = (what: 'seconds' | 'cpuSeconds'): Spread => ratioOf(of(names.delta, what), of(names.whole, what));
  const how = 'pairs';
  return [
    {
      name: `${pair}: memory above the whole one`,
      unit: 'MiB',
      value: spreadOf(memory),
      target: TARGET_MEMORY_MIB,
      how,
    },
    { name: `${pair}: CPU against the whole one`, unit: '×', value: ratio('cpuSeconds'), how },
    { name: `${pair}: wall time against the whole one, from a file`, unit: '×', value: ratio('seconds'), how },
  ];
}
