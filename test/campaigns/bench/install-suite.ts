import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { makeKeyPair } from '../../unit-and-integration/firmware/artifact/keys.ts';
import { Authority } from '../../unit-and-integration/service/rest/certificates.ts';
import { LoopDevice } from '../../unit-and-integration/slots/loop-device.ts';
import { installByAgent, installProbed } from './bench-agent.ts';
import type { AgentRig } from './bench-agent.ts';
import type { BenchContext } from './context.ts';
import { measurementsOf } from './figures.ts';
import type { Figure, SuiteResult, Unit } from './figures.ts';
import { imageFile, writeRandomImage, writeSignedArtifact, writeSwu, writeText } from './firmware-files.ts';
import type { ImageFile, SwuFile } from './firmware-files.ts';
import { measure, shell } from './measure.ts';
import type { Command, Cost } from './measure.ts';
import { mender, writeMender } from './peers/mender.ts';
import type { MenderFiles } from './peers/mender.ts';
import { rauc, writeRauc } from './peers/rauc.ts';
import type { RaucFiles } from './peers/rauc.ts';
import type { ProbeReport } from './probe.ts';
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
  digest: 'openssl dgst -sha256 of the image',
  download: 'curl -o FILE && sync',
  pipeline: "curl | tr -d '\"' | base64 -d | tee >(sha256sum) | dd",
  swupdate: 'swupdate, signed .swu over HTTP',
  mender: 'mender, signed artifact over HTTP',
  rauc: 'curl, then rauc, signed bundle (plain)',
  storage: 'dd of the image into the device, O_DIRECT and fsync',
  artifact: 'agent, signed artifact',
  solidus: 'agent, slashes escaped',
  lines: 'agent, lines of 76',
  hex: 'agent, hexadecimal',
  tls: 'agent, over TLS',
} as const;

interface Files {
  readonly image: ImageFile;
  readonly texts: Readonly<Record<'plain' | 'tiny' | 'artifact' | 'solidus' | 'lines' | 'hex', string>>;
  readonly swu: SwuFile;
  readonly mender: MenderFiles;
  readonly rauc: RaucFiles;
  readonly publicPem: string;
}

/** Rows 1 to 3: an installation, its parts, and alternatives, interleaved in rounds. */
export async function installSuite(context: BenchContext): Promise<SuiteResult> {
  const { workFolder, sizeBytes, rounds, on, tell } = context;
  await run(join(import.meta.dirname, 'peers/install-peers'));
  await using device = await LoopDevice.attach(sizeBytes);
  const files = await writeFiles(context, device.path);
  await using authority = await Authority.create();
  const certificate = await authority.issue('service', 'IP:127.0.0.1');
  const texts = { ...files.texts, swu: files.swu.path, mender: files.mender.artifact, rauc: files.rauc.bundle };
  await using service = await ServiceProcess.start({ texts, nginxFolder: workFolder });
  await using secure = await ServiceProcess.start({ texts, tls: certificate, nginxFolder: workFolder });
  const rig: AgentRig = { workFolder, program: context.program, device: device.path, on };
  const signed = { ...rig, trustedKey: files.publicPem };
  const trusting = { ...rig, caFile: authority.caFile };
  const emptied = emptyFirst(device.path, sizeBytes);

  const agent = (name: string, version: keyof Files['texts'], its = rig): Contender<Cost> =>
    emptied(name, async () => {
      await service.setTarget(version);
      return installByAgent(its, service);
    });
  const command = (name: string, what: Command): Contender<Cost> =>
    emptied(name, async () => measure({ ...what, on }, workFolder));
  const textUrl = await service.firmwareUrl('plain');
  const contenders = [
    agent(names.plain, 'plain'),
    { name: names.digest, run: async () => measure({ ...digest(files.image), on }, workFolder) },
    {
      name: names.download,
      run: async () => measure({ ...download(textUrl, join(workFolder, 'download')), on }, workFolder),
    },
    command(names.pipeline, pipeline(textUrl, device.path)),
    command(names.swupdate, swupdate(await service.firmwareUrl('swu'), files.swu)),
    command(names.mender, mender(await service.firmwareUrl('mender'), files.mender)),
    command(names.rauc, rauc(await service.firmwareUrl('rauc'), files.rauc)),
    command(names.storage, copyInto(device.path, files.image)),
    agent(names.artifact, 'artifact', signed),
    agent(names.solidus, 'solidus'),
    agent(names.lines, 'lines'),
    agent(names.hex, 'hex'),
    emptied(names.tls, async () => installByAgent(trusting, secure)),
    agent(names.tiny, 'tiny'),
  ];
  await contenders[0]?.run(); // fills caches
  await requireInstalled(device.path, files.image);
  const costs = await inRounds(contenders, rounds, tell);
  const probes = await inRounds(
    [
      emptied('agent with the probe', async () => {
        await service.setTarget('plain');
        return installProbed(rig, service);
      }),
    ],
    rounds,
    tell,
  );
  return {
    suite: 'install',
    measurements: measurementsOf(costs),
    figures: [...figures(costs, [...probes.values()].flat(), sizeBytes), ...(await transferred(files))],
  };
}

/** What each program downloads. */
async function transferred({ image, texts, swu, mender: ofMender, rauc: ofRauc }: Files): Promise<readonly Figure[]> {
  const downloads = {
    [names.plain]: texts.plain,
    [names.artifact]: texts.artifact,
    [names.swupdate]: swu.path,
    [names.mender]: ofMender.artifact,
    [names.rauc]: ofRauc.bundle,
  };
  const sizes = Object.entries(downloads).map(async ([name, path]): Promise<Figure> => {
    const value = spreadOf([(await stat(path)).size / image.sizeBytes]);
    return { name: `${name}: transferred, of the image`, unit: '×', value, how: 'size of the file, without headers' };
  });
  return Promise.all(sizes);
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
    solidus: await writeText(path('solidus.json'), image.path, { escapes: 'solidus' }),
    lines: await writeText(path('lines.json'), image.path, { lineLength: 76 }),
    hex: await writeText(path('hex.json'), image.path, { encoding: 'hex' }),
  };
  const swu = await writeSwu('image', { folder: workFolder, image, device });
  const peer = { workFolder, device };
  const others = { mender: await writeMender(image, { ...peer, keys }), rauc: await writeRauc(image, peer) };
  await run('sync', ['--file-system', workFolder]);
  return { image, texts, swu, ...others, publicPem: keys.publicPem };
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

function digest({ path }: ImageFile): Command {
  return { argv: ['openssl', 'dgst', '-sha256', path] };
}

function download(url: string, path: string): Command {
  return shell(`curl --silent --fail --output '${path}' '${url}' && sync '${path}'`);
}

function pipeline(url: string, device: string): Command {
  const sink = `dd of='${device}' bs=1M iflag=fullblock conv=fsync status=none`;
  return shell(`curl --silent --fail '${url}' | tr -d '"' | base64 -d | tee >(sha256sum >/dev/null) | ${sink}`);
}

function swupdate(url: string, { certificate }: SwuFile): Command {
  return { argv: ['swupdate', '-H', 'bench:1.0', '-k', certificate, '-d', `-u ${url}`] };
}

function copyInto(device: string, { path }: ImageFile): Command {
  return { argv: ['dd', `if=${path}`, `of=${device}`, 'bs=1M', 'oflag=direct', 'conv=fsync'] };
}

async function requireInstalled(device: string, { sha256, sizeBytes }: ImageFile): Promise<void> {
  const found = await imageFile(device, sizeBytes);
  if (found.sha256 !== sha256) throw new Error(`${device} does not hold the image after the installation`);
}

const pairs = 'wall time, pairs of the same round';
const inside = 'probe in the program, in runs of its own';

function figures(
  costs: ReadonlyMap<string, readonly Cost[]>,
  probes: readonly ProbeReport[],
  sizeBytes: number,
): readonly Figure[] {
  const all = (name: string): readonly Cost[] => costs.get(name) ?? [];
  const seconds = (name: string): readonly number[] => all(name).map((cost) => cost.seconds);
  const [plain, start] = [seconds(names.plain), seconds(names.tiny)];
  const transfer = plain.map((whole, round) => whole - (start[round] ?? NaN));
  const cpu = all(names.plain).map(({ cpuSeconds }) => (cpuSeconds * GIB) / sizeBytes);
  const rss = all(names.plain).map(({ peakRssMib }) => peakRssMib);
  const ratio = (name: string, target?: number): Figure => {
    return { name: `install / ${name}`, unit: '×', value: ratioOf(plain, seconds(name)), target, how: pairs };
  };
  const probed = (name: string, unit: Unit, of: (probe: ProbeReport) => number, target?: number): Figure => {
    return { name, unit, value: spreadOf(probes.map(of)), target, how: inside };
  };
  const variant = (name: string): Figure => {
    return { name: `${name} / plain`, unit: '×', value: ratioOf(seconds(name), plain), target: 1.35, how: pairs };
  };
  return [
    ratio(names.digest, 1.3),
    {
      name: `the same, without the time of ${names.tiny}`,
      unit: '×',
      value: ratioOf(transfer, seconds(names.digest)),
      how: 'start, activation, look, boot environment and journal subtracted',
    },
    ratio(names.swupdate, 0.65),
    ratio(names.mender),
    ratio(names.rauc),
    ratio(names.pipeline, 0.5),
    ratio(names.download),
    ratio(names.storage),
    probed('reading back, of the time before it', '%', share, 25),
    {
      name: 'CPU of an installation',
      unit: 'CPU s/GiB',
      value: spreadOf(cpu),
      target: 6,
      how: 'time(1), start included',
    },
    { name: 'peak RSS of an installation', unit: 'MiB', value: spreadOf(rss), target: 130, how: 'time(1)' },
    probed('event loop delay, p99', 'ms', ({ delayP99 }) => delayP99, 10),
    probed('event loop delay, longest', 'ms', ({ delayMax }) => delayMax),
    ...[names.artifact, names.solidus, names.lines, names.hex, names.tls].map(variant),
  ];
}

function share({ writing, flushing, readingBack }: ProbeReport): number {
  return (readingBack / (writing + flushing)) * 100;
}
