import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { QemuGateway } from '../../stand-ins/machine/qemu-gateway.ts';
import { tool } from '../../stand-ins/machine/tool.ts';
import { fileContent } from '../../stand-ins/service/firmware-content.ts';
import { startStandIn } from '../../stand-ins/service/stand-in.ts';
import type { StandIn } from '../../stand-ins/service/stand-in.ts';
import { Flushes, survivors } from './cut.ts';
import type { Cut } from './cut.ts';
import { knowledgeAt } from './judge.ts';
import { partitionOf } from './recording.ts';
import type { KnownThing, Partition, Recording } from './recording.ts';
import { KnownImages, SlotContent } from './slot-content.ts';
import { VirtualDisk } from './virtual-disk.ts';
import { SECTOR } from './write-log.ts';

export interface BootedCut {
  readonly cut: Cut;
  readonly boots: readonly string[];
  readonly seconds: number;
  /** Empty: it came to rest as it must. */
  readonly violations: readonly string[];
  /** The end of the console, where something is wrong. */
  readonly story: string;
}

export interface BootOptions {
  readonly deadlineMs: number;
  /** What the gateway must run at the end; what the owner wants, if not given. */
  readonly ends?: string | undefined;
  readonly onLine?: (line: string) => void;
}

/** Starts the disk that a cut left behind, with the service as it was then, and waits until the gateway has come to rest. */
export async function bootCut(recording: Recording, cut: Cut, options: BootOptions): Promise<BootedCut> {
  const folder = await mkdtemp(join(tmpdir(), 'boots-cut-'));
  const startMs = performance.now();
  try {
    const disk = await diskOf(recording, cut, join(folder, 'disk.img'));
    await using service = await serviceOf(recording, cut);
    await using gateway = new QemuGateway({
      disk,
      servicePort: Number(new URL(service.url).port),
      ...(options.onLine === undefined ? {} : { onLine: options.onLine }),
    });
    gateway.powerOn();
    const wanted = options.ends ?? service.world.targetVersionId ?? '';
    const violations: string[] = [];
    if (!(await comesToRest(service, wanted, options.deadlineMs))) {
      violations.push(`the service was not told of ${wanted} within ${options.deadlineMs / 1000} s`);
    }
    await gateway.powerOff();
    violations.push(...(await examine(recording, { disk, folder, wanted, booted: gateway.boots.at(-1) })));
    const story = violations.length === 0 ? '' : gateway.console.lines.slice(-40).join('\n');
    const seconds = Math.round((performance.now() - startMs) / 1000);
    return { cut, boots: gateway.boots, seconds, violations, story };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The disk as the cut left it, as a file. */
export async function diskOf(recording: Recording, cut: Cut, path: string): Promise<string> {
  await tool(['cp', '--sparse=always', recording.base, path]);
  using disk = VirtualDisk.at(path);
  const flushes = new Flushes(recording.events);
  for (const [index, event] of recording.events.slice(0, flushes.durableBefore(cut.event)).entries()) {
    if (event.kind === 'write') disk.keep({ index, event });
  }
  for (const survivor of survivors(recording, flushes, cut)) disk.keep(survivor);
  return path;
}

async function serviceOf(recording: Recording, cut: Cut): Promise<StandIn> {
  const [factory = ''] = Object.keys(recording.images);
  const service = await startStandIn({ versions: [{ id: factory }] });
  for (const [id, path] of Object.entries(recording.firmware)) {
    service.world.addVersion({ id, firmware: fileContent(path) });
  }
  const thing = thingAt(recording, cut.position);
  if (thing !== undefined) {
    const { currentVersionId, ...others } = thing;
    service.world.things.push({ ...others, currentVersionId, properties: new Map(), datapoints: new Map() });
  }
  service.world.targetVersionId = knowledgeAt(recording, cut.position).wanted ?? factory;
  return service;
}

function thingAt({ happenings }: Recording, position: number): KnownThing | undefined {
  const last = happenings.findLast((happening) => happening.kind === 'known' && happening.at <= position);
  return last?.kind === 'known' ? last.thing : undefined;
}

/** The service knows that the version runs, and the gateway has looked once more after that: nothing is under way. */
async function comesToRest(service: StandIn, version: string, deadlineMs: number): Promise<boolean> {
  const deadline = Date.now() + deadlineMs;
  let looks = 0;
  while (looks < 2) {
    const rest = deadline - Date.now();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => resolve(undefined), Math.max(rest, 0));
    const call = await Promise.race([service.nextCall('targetVersion'), promise]);
    clearTimeout(timer);
    if (call === undefined) return false;
    looks = service.world.things[0]?.currentVersionId === version ? looks + 1 : 0;
  }
  return true;
}

interface Rest {
  readonly disk: string;
  readonly folder: string;
  readonly wanted: string;
  readonly booted: string | undefined;
}

async function examine(recording: Recording, { disk, folder, wanted, booted }: Rest): Promise<readonly string[]> {
  const violations: string[] = [];
  const area = partitionOf(recording, booted === 'B' ? 'rootfs-b' : 'rootfs-a');
  const { whole } = new SlotContent(disk, area, new KnownImages(recording.images));
  if (!whole.includes(wanted)) {
    violations.push(`slot ${booted} runs at the end and holds ${whole.join(', ') || 'no known image'}, not ${wanted}`);
  }
  const journal = await journalOf(disk, partitionOf(recording, 'state'), folder);
  const phase = /"phase":\{"kind":"([a-z-]+)"/.exec(journal)?.[1];
  if (phase !== 'idle') violations.push(`the journal says ${phase ?? `"${journal.slice(0, 60)}"`}`);
  return violations;
}

/** As Linux would see it: with the file system's own journal replayed. */
async function journalOf(disk: string, { sector, sectors }: Partition, folder: string): Promise<string> {
  const state = join(folder, 'state.part');
  const place = [`bs=${SECTOR}`, `skip=${sector}`, `count=${sectors}`, 'status=none'] as const;
  await tool(['dd', `if=${disk}`, `of=${state}`, ...place]);
  await tool(['sh', '-c', `e2fsck -fy '${state}' >/dev/null 2>&1 || true`]);
  return tool(['sh', '-c', `debugfs -R 'cat /journal.json' '${state}' 2>/dev/null`]);
}
