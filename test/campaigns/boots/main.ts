import process from 'node:process';

import { countOption, runTool, WrongUse } from '../../tool.ts';
import type { BootedCut } from './boot-cut.ts';
import { bootCuts, describeBooted, describeJudged, judgeCuts } from './campaign.ts';
import type { JudgedCuts } from './campaign.ts';
import { openRig } from './gateways/rigs.ts';
import type { Rig } from './gateways/rigs.ts';
import { describeLedger, noteFigure, readLedger } from './ledger.ts';
import { PATIENCE_MS, scenes } from './scenes.ts';
import type { Scene } from './scenes.ts';
import { recordingOf } from './stage.ts';

const list = Object.entries(scenes).map(([name, { says }]) => `  ${name.padEnd(17)} ${says}`);

const help = `npm run boots -- [--scene NAME] [--cuts N] [--boots N] [--seed S] [--boot-type TYPE] [--json FILE]

Runs gateways that really boot: GRUB, Linux, systemd and the built agent on an emulated machine (QEMU without KVM), from
images that systemd/images makes, against the stand-in of the service. All writes and flushes of their disk are recorded;
power cuts are made from the recording. For root.

  --scene NAME      one of those below, or all (default); may be repeated
  --cuts N          so many power cuts of each scene are judged without a start: GRUB itself says which slot it would start,
                    and that slot must hold a whole image, of the version that the service knows or wants (1000)
  --boots N         so many of them, of all scenes together, are started until the gateway has come to rest (10)
  --seed S          of the cuts (a random one)
  --boot-type TYPE  file system of the boot partition: ext4 (default) or vfat
  --firmware NAME   of the emulated machine: bios (default) or efi, whose boot partition is on vfat
  --clock NAME      of the emulated machine: time (default), or work: it counts what was done, for a machine that is busy with other things
  --machine KIND    qemu (default), or loop: GRUB as a program, this Linux and the agent with the disk of a small gateway, in seconds
  --fresh           record again what is kept in .cache/boots
  --console         show the console of every gateway
  --total           only the figures of all that was done so far (.cache/boots/figures.jsonl)

Scenes:
${list.join('\n')}`;

const options = {
  scene: { type: 'string', multiple: true, default: ['all'] as string[] },
  cuts: { type: 'string', default: '1000' },
  boots: { type: 'string', default: '10' },
  seed: { type: 'string', default: String(Math.floor(Math.random() * 1_000_000)) },
  machine: { type: 'string', default: 'qemu' },
  firmware: { type: 'string', default: 'bios' },
  clock: { type: 'string', default: 'time' },
  'boot-type': { type: 'string', default: 'ext4' },
  fresh: { type: 'boolean', default: false },
  console: { type: 'boolean', default: false },
  total: { type: 'boolean', default: false },
} as const;

type Values = Readonly<Record<'cuts' | 'boots' | 'boot-type' | 'machine' | 'firmware' | 'clock', string>> & {
  readonly scene: readonly string[];
  readonly fresh: boolean;
  readonly console: boolean;
};

interface Order {
  readonly name: string;
  readonly scene: Scene;
  readonly cuts: number;
  readonly boots: number;
  readonly seed: number;
  readonly isKept: boolean;
  readonly isShown: boolean;
}

/** Number of interruptions that are checked and recorded at a time. */
const PIECE = 5000;

/** True if every invariant held. */
async function play(rig: Rig, { name, scene, cuts, boots, seed, isKept, isShown }: Order): Promise<boolean> {
  const onLine = isShown ? { onLine: (line: string) => console.log(line) } : {};
  const recording = await recordingOf({ name, scene, rig, isKept, ...onLine });
  const { events, seconds, cycles } = recording;
  const mebibytes = Math.round((events.at(-1)?.position ?? 0) / 2 ** 20);
  console.log(`\n${name}: ${scene.says}`);
  console.log(`recorded in ${seconds} s: ${cycles} starts, ${events.length} writes and flushes, ${mebibytes} MiB`);
  const machine = rig.firmware === 'efi' ? `${rig.machine} with UEFI` : rig.machine;
  const common = { scene: name, machine, bootType: rig.bootType, key: rig.images.key };
  let holds = true;
  let first: JudgedCuts | undefined;
  for (let done = 0; done < Math.max(cuts, 1); done += PIECE) {
    const piece = { cuts: Math.min(PIECE, cuts - done), seed: seed + done / PIECE };
    const judged = await judgeCuts(recording, piece);
    console.log(`seed ${piece.seed}: ${describeJudged(judged)}`);
    noteFigure({ kind: 'judged', ...common, ...piece, seconds: judged.seconds, violations: judged.violations });
    if (Object.keys(judged.violations).length > 0) holds = false;
    first ??= judged;
  }
  if (first === undefined) return holds;
  const onBooted = (one: BootedCut): void => {
    const { cut, restSeconds, nextSeconds, processorSeconds, violations } = one;
    const times = { restSeconds, nextSeconds, processorSeconds };
    console.log(describeBooted(one));
    noteFigure({ kind: 'booted', ...common, seed: cut.seed, ...times, violations: [...violations] });
    if (violations.length > 0) holds = false;
  };
  const deadlineMs = PATIENCE_MS[rig.machine];
  const { openGateway, startBoard } = rig;
  await bootCuts(recording, scene, first, { boots, seed, openGateway, startBoard, deadlineMs, onBooted, ...onLine });
  return holds;
}

function allScenes(machine: string): readonly string[] {
  const found = Object.entries(scenes).filter(([, { machine: only = machine }]) => only === machine);
  return found.map(([name]) => name).filter((name) => name !== 'short' && name !== 'together');
}

function readOrders(values: Values, seed: number): readonly Order[] {
  const [cuts, boots] = [countOption('cuts', values.cuts, 0), countOption('boots', values.boots, 0)];
  const names = values.scene.includes('all') ? allScenes(values.machine) : values.scene;
  return names.map((name, number) => {
    const scene = scenes[name];
    if (scene === undefined) throw new WrongUse(`--scene is one of ${Object.keys(scenes).join(', ')}`);
    const share = Math.floor((boots * (number + 1)) / names.length) - Math.floor((boots * number) / names.length);
    return { name, scene, cuts, boots: share, seed, isKept: !values.fresh, isShown: values.console };
  });
}

async function readRig(values: Values): Promise<Rig> {
  const { machine, firmware, clock } = values;
  const bootType = firmware === 'efi' ? 'vfat' : values['boot-type'];
  if (bootType !== 'ext4' && bootType !== 'vfat') throw new WrongUse('--boot-type is ext4 or vfat');
  if (machine !== 'qemu' && machine !== 'loop') throw new WrongUse('--machine is qemu or loop');
  if (firmware !== 'bios' && (firmware !== 'efi' || machine !== 'qemu')) {
    throw new WrongUse('--firmware is bios, or efi for qemu');
  }
  if (clock !== 'time' && (clock !== 'work' || machine !== 'qemu')) {
    throw new WrongUse('--clock is time, or work for qemu');
  }
  return openRig({ machine, bootType, firmware, clock });
}

await runTool(help, options, async (values) => {
  const seed = countOption('seed', values.seed, 0);
  const orders = readOrders(values, seed);
  console.log(`seed ${seed}`);
  if (values.total) {
    console.log(describeLedger(readLedger()));
    return 0;
  }
  await using rig = await readRig(values);
  // A gateway on this machine leaves no mounts behind.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void rig[Symbol.asyncDispose]().then(() => process.exit(1)));
  }
  let holds = true;
  for (const order of orders) holds = (await play(rig, order)) && holds;
  return holds ? 0 : 1;
});
