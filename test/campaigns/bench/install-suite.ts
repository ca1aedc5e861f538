import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import { LoopDevice } from '../../unit-and-integration/slots/loop-device.ts';
import { installByAgent } from './bench-agent.ts';
import type { AgentRig } from './bench-agent.ts';
import type { BenchContext } from './context.ts';
import { measurementsOf } from './figures.ts';
import type { Figure, SuiteResult } from './figures.ts';
import { imageFile, writeRandomImage, writeSignedArtifact, writeSwu, writeText } from './firmware-files.ts';
import type { ImageFile, SwuFile } from './firmware-files.ts';
import { measure } from './measure.ts';
import type { Command, Cost } from './measure.ts';
import { mender, writeMender } from './peers/mender.ts';
import type { MenderFiles } from './peers/mender.ts';
import { rauc, writeRauc } from './peers/rauc.ts';
import type { RaucFiles } from './peers/rauc.ts';
import { ServiceProcess } from './service-process.ts';
import { inRounds, ratioOf, spreadOf } from './statistics.ts';
import type { Contender } from './statistics.ts';

const run = promisify(execFile);
const GIB = 1024 ** 3;
const TINY_BYTES = 64 * 1024;

/** The compared programs. */
const names = {
  plain: 'agent, raw image as base64',
  tiny: 'agent, 64 KiB',
  swupdate: 'swupdate, signed .swu over HTTP',
  mender: 'mender, signed artifact over HTTP',
  rauc: 'curl, then rauc, signed bundle (plain)',
  artifact: 'agent, signed artifact',
} as const;

interface Files {
  readonly image: ImageFile;
  readonly texts: Readonly<Record<'plain' | 'tiny' | 'artifact', string>>;
  readonly swu: SwuFile;
  readonly mender: MenderFiles;
  readonly rauc: RaucFiles;
  readonly publicPem: string;
}

/** Rows 1 to 3: an installation, and alternatives, interleaved in rounds. */
export async function installSuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, sizeBytes, rounds, on, tell } = context;
  await run(join(import.meta.dirname, 'peers/install-peers'));
  await using device = await LoopDevice.attach(sizeBytes);
  const files = await writeFiles(context, device.path);
  const texts = { ...files.texts, swu: files.swu.path, mender: files.mender.artifact, rauc: files.rauc.bundle };
  await using service = await ServiceProcess.start({ texts, nginxFolder: workFolder });
  const rig: AgentRig = { workFolder, program: context.program, device: device.path, on };
  const signed = { ...rig, trustedKey: files.publicPem };
  const emptied = emptyFirst(device.path, sizeBytes);

  const agent = (name: string, version: keyof Files['texts'], its = rig): Contender<Cost> =>
    emptied(name, async () => {
      await service.setTarget(version);
      return installByAgent(its, service);
    });
  const command = (name: string, what: Command): Contender<Cost> =>
    emptied(name, async () => measure({ ...what, on }, workFolder));
  const contenders = [
    agent(names.plain, 'plain'),
    command(names.swupdate, swupdate(await service.firmwareUrl('swu'), files.swu)),
    command(names.mender, mender(await service.firmwareUrl('mender'), files.mender)),
    command(names.rauc, rauc(await service.firmwareUrl('rauc'), files.rauc)),
    agent(names.artifact, 'artifact', signed),
    agent(names.tiny, 'tiny'),
  ];
  await contenders[0]?.run(); // fills caches
  await requireInstalled(device.path, files.image);
  const costs = await inRounds(contenders, rounds, tell);
  return {
    suite: 'install',
    measurements: measurementsOf(costs),
    figures: [...figures(costs, sizeBytes), ...(await downloads(files))],
  };
}

async function writeFiles({ workFolder, sizeBytes, tell }: BenchContext, device: string): Promise<Files> {
  tell('writing the firmwares');
  const path = (name: string): string => join(workFolder, name);
  const image = await writeRandomImage(path('image'), sizeBytes);
  const tiny = await writeRandomImage(path('tiny'), TINY_BYTES);
  const keys = makeKeyPair('ecdsa-p256');
  await writeSignedArtifact({ path: path('artifact'), name: 'artifact' }, image, keys);
  const texts = {
    plain: await writeText(path('plain.json'), image.path),
    tiny: await writeText(path('tiny.json'), tiny.path),
    artifact: await writeText(path('artifact.json'), path('artifact')),
  };
  const swu = await writeSwu({ folder: workFolder, image, device });
  const peer = { workFolder, device };
  const others = { mender: await writeMender(image, { ...peer, keys }), rauc: await writeRauc(image, peer) };
  await run('sync', ['--file-system', workFolder]);
  return { image, texts, swu, ...others, publicPem: keys.publicPem };
}

/** The bytes that a gateway downloads for the image, and the versions of the compared programs. */
async function downloads({ image, texts, swu, ...files }: Files): Promise<readonly Figure[]> {
  const all = [
    [names.plain, texts.plain],
    [names.artifact, texts.artifact],
    [names.swupdate, swu.path, 'swupdate'],
    [names.mender, files.mender.artifact, 'mender-client'],
    [names.rauc, files.rauc.bundle, 'rauc'],
  ] as const;
  const figure = async ([name, path, program]: (typeof all)[number]): Promise<Figure> => {
    const { size } = await stat(path);
    const version =
      program === undefined ? [] : [(await run('dpkg-query', ['--show', program])).stdout.trim().replace('\t', ' ')];
    const how = [`${size} bytes`, ...version].join(', ');
    return { name: `download: ${name} / image`, unit: '×', value: spreadOf([size / image.sizeBytes]), how };
  };
  return Promise.all(all.map(figure));
}

/** Zeros in the device before each run: what is there already would not be written again. */
function emptyFirst(device: string, sizeBytes: number) {
  return <T>(name: string, work: () => Promise<T>): Contender<T> => ({
    name,
    run: async () => {
      const count = String(Math.ceil(sizeBytes / 2 ** 20));
      await run('dd', ['if=/dev/zero', `of=${device}`, 'bs=1M', `count=${count}`, 'oflag=direct', 'conv=fsync']);
      return work();
    },
  });
}

function swupdate(url: string, { certificate }: SwuFile): Command {
  return { argv: ['swupdate', '-H', 'bench:1.0', '-k', certificate, '-d', `-u ${url}`] };
}

async function requireInstalled(device: string, { sha256, sizeBytes }: ImageFile): Promise<void> {
  const found = await imageFile(device, sizeBytes);
  if (found.sha256 !== sha256) throw new Error(`${device} does not hold the image after the installation`);
}

function figures(costs: ReadonlyMap<string, readonly Cost[]>, sizeBytes: number): readonly Figure[] {
  const all = (name: string): readonly Cost[] => costs.get(name) ?? [];
  const seconds = (name: string): readonly number[] => all(name).map((cost) => cost.seconds);
  const cpu = all(names.plain).map(({ cpuSeconds }) => (cpuSeconds * GIB) / sizeBytes);
  const rss = all(names.plain).map(({ peakRssMib }) => peakRssMib);
  const ratio = (one: string, other: string, target?: number): Figure => {
    const value = ratioOf(seconds(one), seconds(other));
    return { name: `${one} / ${other}`, unit: '×', value, target, how: 'wall time, pairs of the same round' };
  };
  return [
    ratio(names.plain, names.swupdate, 0.65),
    ratio(names.plain, names.mender),
    ratio(names.plain, names.rauc),
    ratio(names.artifact, names.plain, 1.35),
    {
      name: 'CPU of an installation',
      unit: 'CPU s/GiB',
      value: spreadOf(cpu),
      target: 6,
      how: 'time(1), start included',
    },
    { name: 'peak RSS of an installation', unit: 'MiB', value: spreadOf(rss), target: 130, how: 'time(1)' },
  ];
}
