import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { GatewayMachine } from '../../fakes/machine/booting/gateway-machine.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { fileContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import { Flushes, survivors } from './disk/cut.ts';
import type { Cut } from './disk/cut.ts';
import { partitionOf } from './disk/recording.ts';
import type { KnownThing, Partition, Recording } from './disk/recording.ts';
import { VirtualDisk } from './disk/virtual-disk.ts';
import { WholeSlot } from './disk/whole-slot.ts';
import { SECTOR } from './disk/write-log.ts';
import { boardMemoryAt } from './gateways/gateway-board.ts';
import type { GatewayBoard } from './gateways/gateway-board.ts';
import { NEXT_VERSION } from './gateways/releases.ts';
import { knowledgeAt } from './judge.ts';
import type { Machines } from './record.ts';
import { Waiting } from './waiting.ts';

export interface BootedCut {
  readonly cut: Cut;
  readonly boots: readonly string[];
  /**
   * Seconds from power-on until it was idle, and from then until the next update was complete. Undefined if it never
   * was.
   */
  readonly restSeconds: number | undefined;
  readonly nextSeconds: number | undefined;
  /** Processor time of the emulator for both; 0 without an emulator. */
  readonly processorSeconds: number;
  /** Empty: it came to rest as it must, and takes the next update. */
  readonly violations: readonly string[];
  /** The console, where something is wrong. */
  readonly story: string;
}

export interface BootOptions extends Machines {
  /** For coming to rest, and once more for the next update. */
  readonly deadlineMs: number;
  /** The version that the gateway must run once the interrupted attempt has ended. Default: the target version. */
  readonly ends?: string | undefined;
  readonly onLine?: (line: string) => void;
}

/**
 * Starts the disk that a cut left behind, with the service as it was then, and waits until the gateway has come to rest: it runs
 * the image that it must, and the service knows. Then its owner wants another version, and it must come to rest on that.
 */
export async function bootCut(recording: Recording, cut: Cut, options: BootOptions): Promise<BootedCut> {
  const folder = await mkdtemp(join(tmpdir(), 'boots-cut-'));
  try {
    const disk = await diskOf(recording, cut, join(folder, 'disk.img'));
    await using seen = await WatchedService.start(recording, cut);
    const memory = boardMemoryAt(recording, cut.position);
    await using board = memory === undefined ? null : await options.startBoard(memory);
    await using gateway = options.openGateway({
      disk,
      servicePort: seen.port,
      ...(board === null ? {} : { board: await board.wiring() }),
      ...(options.onLine === undefined ? {} : { onLine: options.onLine }),
    });
    gateway.powerOn();
    const watched: Watched = { recording, cut, disk, seen, gateway, board, options };
    const rest = await awaitRest(watched);
    const next = rest.violations.length === 0 ? await awaitNextUpdate(watched) : undefined;
    await gateway.powerOff();
    const violations = [...rest.violations, ...(next?.violations ?? [])];
    if (next?.seconds !== undefined) violations.push(...(await journalTrouble(recording, disk, folder)));
    const story = violations.length === 0 ? '' : gateway.console.lines.join('\n');
    const { boots } = gateway;
    const processorSeconds = Math.round(gateway.processorSeconds);
    const times = { restSeconds: rest.seconds, nextSeconds: next?.seconds, processorSeconds };
    return { cut, boots, ...times, violations, story };
  } finally {
    await rm(folder, { recursive: true });
  }
}

interface Watched {
  readonly recording: Recording;
  readonly cut: Cut;
  readonly disk: string;
  readonly seen: WatchedService;
  readonly gateway: GatewayMachine;
  /** Null: there is none. */
  readonly board: GatewayBoard | null;
  readonly options: BootOptions;
}

interface Rest {
  readonly seconds: number | undefined;
  readonly violations: readonly string[];
}

async function awaitRest(watched: Watched): Promise<Rest> {
  const { recording, cut, seen, options } = watched;
  const { wanted } = seen;
  const isUnderWay = knowledgeAt(recording, cut.position).wanted !== undefined;
  if (options.ends === undefined || options.ends === wanted || !isUnderWay) return restOn(watched, wanted);
  const startMs = performance.now();
  if (!(await seen.until(() => seen.isReported, options.deadlineMs))) {
    return { seconds: undefined, violations: [`no attempt's end was reported ${within(options.deadlineMs)}`] };
  }
  const passedMs = performance.now() - startMs;
  const { seconds, violations } = await restOn(watched, options.ends);
  return { seconds: seconds === undefined ? undefined : Math.round(seconds + passedMs / 1000), violations };
}

async function awaitNextUpdate(watched: Watched): Promise<Rest> {
  watched.seen.wanted = NEXT_VERSION;
  const { seconds, violations } = await restOn(watched, NEXT_VERSION);
  return { seconds, violations: violations.map((violation) => `the next update: ${violation}`) };
}

/** The service knows that the version runs, the gateway has looked twice since then, its slot and its board hold just this. */
async function restOn({ recording, disk, seen, gateway, board, options }: Watched, version: string): Promise<Rest> {
  const startMs = performance.now();
  if (!(await seen.until(() => seen.looksWith(version) >= 2, options.deadlineMs))) {
    const why = `the service was not told of ${version} ${within(options.deadlineMs)}`;
    return { seconds: undefined, violations: [why] };
  }
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const slot = gateway.boots.at(-1);
  const whole = WholeSlot.both(disk, recording).find(({ name }) => name === slot)?.whole ?? [];
  const violations: string[] = [];
  if (!whole.includes(version)) {
    violations.push(`slot ${slot} runs and holds ${whole.join(', ') || 'no known image'}, not ${version}`);
  }
  if (board !== null && !(await board.holds(recording.boards[version] ?? ''))) {
    violations.push(`${version} runs, and the board has another program`);
  }
  return { seconds, violations };
}

function within(deadlineMs: number): string {
  return `within ${deadlineMs / 1000} s`;
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

/** The service in its state at the power loss, and the requests that it receives from then on. */
class WatchedService implements AsyncDisposable {
  readonly #service: StandIn;
  readonly #waiting = new Waiting();
  #looks = { version: '', count: 0 };
  /** The end of an attempt was reported, before the cut or after it. */
  isReported: boolean;

  private constructor(service: StandIn, isReported: boolean) {
    this.#service = service;
    this.isReported = isReported;
  }

  static async start(recording: Recording, cut: Cut): Promise<WatchedService> {
    const [factory = ''] = Object.keys(recording.images);
    const hearers: WatchedService[] = [];
    const service = await startStandIn({
      versions: [{ id: factory }],
      onCall: (call) => hearers.forEach((hearer) => hearer.called(call)),
    });
    for (const [id, path] of Object.entries(recording.firmware)) {
      service.world.addVersion({ id, firmware: fileContent(path) });
    }
    const thing = thingAt(recording, cut.position);
    if (thing !== undefined) {
      const { currentVersionId, ...others } = thing;
      service.world.know({ ...others, currentVersionId, properties: new Map(), datapoints: new Map() });
    }
    service.world.targetVersionId = knowledgeAt(recording, cut.position).wanted ?? factory;
    const isReported = recording.happenings.some(({ kind, at }) => kind === 'reported' && at <= cut.position);
    const watched = new WatchedService(service, isReported);
    hearers.push(watched);
    return watched;
  }

  get port(): number {
    return Number(new URL(this.#service.url).port);
  }

  get wanted(): string {
    return this.#service.world.targetVersionId ?? '';
  }

  set wanted(version: string) {
    this.#service.world.targetVersionId = version;
  }

  /** Returns the number of consecutive update checks during which the service's record had this version. */
  looksWith(version: string): number {
    return this.#looks.version === version ? this.#looks.count : 0;
  }

  async until(condition: () => boolean, deadlineMs: number): Promise<boolean> {
    return this.#waiting.until(condition, deadlineMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]();
  }

  called({ operation, path, status }: { readonly operation: string; readonly path: string; status: number }): void {
    if (operation === 'setProperty' && status === 204 && path.includes('update_outcome')) this.isReported = true;
    if (operation === 'targetVersion') {
      const version = this.#service.world.things[0]?.currentVersionId ?? '';
      this.#looks = { version, count: this.looksWith(version) + 1 };
    }
    this.#waiting.wake();
  }
}

function thingAt({ happenings }: Recording, position: number): KnownThing | undefined {
  const last = happenings.findLast((happening) => happening.kind === 'known' && happening.at <= position);
  return last?.kind === 'known' ? last.thing : undefined;
}

async function journalTrouble(recording: Recording, disk: string, folder: string): Promise<readonly string[]> {
  const journal = await journalOf(disk, partitionOf(recording, 'state'), folder);
  const phase = /"phase":\{"kind":"([a-z-]+)"/.exec(journal)?.[1];
  return phase === 'idle' ? [] : [`the journal says ${phase ?? `"${journal.slice(0, 60)}"`}`];
}

/** As Linux would see it: with the file system's own journal replayed. */
async function journalOf(disk: string, { sector, sectors }: Partition, folder: string): Promise<string> {
  const state = join(folder, 'state.part');
  const place = [`bs=${SECTOR}`, `skip=${sector}`, `count=${sectors}`, 'status=none'] as const;
  await tool(['dd', `if=${disk}`, `of=${state}`, ...place]);
  await tool(['sh', '-c', `e2fsck -fy '${state}' >/dev/null 2>&1 || true`]);
  return tool(['sh', '-c', `debugfs -R 'cat /journal.json' '${state}' 2>/dev/null`]);
}
