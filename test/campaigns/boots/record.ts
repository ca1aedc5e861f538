import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { GatewayMachine } from '../../fakes/machine/booting/gateway-machine.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { fileContent } from '../../fakes/service/firmware-content.ts';
import { startStandIn } from '../../fakes/service/stand-in.ts';
import type { StandIn } from '../../fakes/service/stand-in.ts';
import type { Thing } from '../../fakes/service/world.ts';
import type { Happening, KnownThing, Partition, RecordingFacts } from './disk/recording.ts';
import type { BoardWiring, GatewayBoard } from './gateways/gateway-board.ts';
import type { Releases } from './gateways/releases.ts';
import { Waiting } from './waiting.ts';

/** Parts of a gateway. */
export interface Machines {
  /** The machine with this disk, still switched off. */
  readonly openGateway: (place: GatewayPlace) => GatewayMachine;
  /** `notesFolder`: of a recording that is being made. */
  readonly startBoard: (contents: Uint8Array, notesFolder?: string) => Promise<GatewayBoard>;
}

export interface RecordOptions extends Machines {
  readonly scene: string;
  /** Directory for the recording. It must not exist. */
  readonly folder: string;
  /** The disk as the factory delivers it. */
  readonly disk: string;
  readonly bootType: 'ext4' | 'vfat';
  /** The first one is in slot A, and on the board. */
  readonly releases: Releases;
  readonly play: (stage: RecordingStage) => Promise<void>;
  /** For each thing that a scene waits for. */
  readonly deadlineMs: number;
  readonly onLine?: (line: string) => void;
}

export interface GatewayPlace {
  readonly disk: string;
  readonly servicePort: number;
  /** The board, if there is one. */
  readonly board?: BoardWiring;
  readonly logs?: string;
  readonly onLine?: (text: string) => void;
}

/** Actions of a scene on the gateway that is being recorded. */
export interface RecordingStage {
  readonly gateway: GatewayMachine;
  readonly service: StandIn;
  /** From now on the owner wants this version. */
  readonly want: (version: string) => void;
  /** Waits until the service received the report that it runs. */
  readonly untilTold: (version: string) => Promise<void>;
  /** Until the end of an attempt was reported. */
  readonly untilReported: () => Promise<string>;
}

/** Plays a scene on a gateway whose disk is listened to. */
export async function record(options: RecordOptions): Promise<void> {
  const startMs = performance.now();
  const draft = `${options.folder}.new`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { recursive: true });
  await tool(['cp', '--sparse=always', options.disk, join(draft, 'base.img')]);
  await tool(['cp', '--sparse=always', options.disk, join(draft, 'disk.img')]);
  const happenings: Happening[] = [];
  const cycles = await play(options, draft, happenings);
  const facts: RecordingFacts = {
    scene: options.scene,
    bootType: options.bootType,
    cycles,
    ...options.releases,
    partitions: await partitionsOf(options.disk),
    happenings,
    seconds: Math.round((performance.now() - startMs) / 1000),
  };
  await writeFile(join(draft, 'recording.json'), JSON.stringify(facts));
  await rm(join(draft, 'disk.img'));
  await rename(draft, options.folder);
}

async function play(options: RecordOptions, folder: string, happenings: Happening[]): Promise<number> {
  const [factory = ''] = Object.keys(options.releases.images);
  const note = new Notes(happenings);
  await using service = await startStandIn({ versions: [{ id: factory }], onCall: (call) => note.called(call) });
  note.world = service.world;
  for (const [id, path] of Object.entries(options.releases.firmware)) {
    service.world.addVersion({ id, firmware: fileContent(path) });
  }
  const [program] = Object.values(options.releases.boards);
  await using board = program === undefined ? null : await options.startBoard(await readFile(program), folder);
  await using gateway = options.openGateway({
    disk: join(folder, 'disk.img'),
    ...(board === null ? {} : { board: await board.wiring() }),
    logs: folder,
    servicePort: Number(new URL(service.url).port),
    onLine: (text) => {
      note.line(text);
      options.onLine?.(text);
    },
  });
  note.position = () => gateway.position;
  gateway.powerOn();
  await options.play({
    gateway,
    service,
    want: (version) => {
      service.world.targetVersionId = version;
      happenings.push({ kind: 'wanted', at: gateway.position, version });
    },
    untilTold: async (version) => note.until(({ told }) => told === version, options.deadlineMs),
    untilReported: async () => {
      const before = note.reports.length;
      await note.until(({ reports }) => reports.length > before, options.deadlineMs);
      return note.reports.at(-1) ?? '';
    },
  });
  await gateway.powerOff();
  return gateway.cycles;
}

/** External observations, each with its position in the history of the disk. */
class Notes {
  readonly #happenings: Happening[];
  readonly reports: string[] = [];
  told: string | undefined;
  world: StandIn['world'] | undefined;
  position = (): number => 0;
  #known = '';
  #trouble: string | undefined;
  readonly #waiting = new Waiting();

  constructor(happenings: Happening[]) {
    this.#happenings = happenings;
  }

  line(text: string): void {
    this.#happenings.push({ kind: 'line', at: this.position(), text });
    if (!/^\*\*\* the (?:machine|gateway) /.test(text)) return;
    this.#trouble = text;
    this.#waiting.wake();
  }

  called(call: { readonly operation: string; readonly path: string; readonly body: string; status: number }): void {
    const at = this.position();
    const thing = this.world?.things[0];
    if (thing !== undefined) this.#notice(at, known(thing));
    if (call.operation === 'setProperty' && call.status === 204 && call.path.includes('update_outcome')) {
      this.reports.push(call.body);
      this.#happenings.push({ kind: 'reported', at, outcome: call.body });
    }
    if (call.operation === 'switchTo' && call.status === 204) this.told = thing?.currentVersionId;
    this.#waiting.wake();
  }

  async until(condition: (notes: Notes) => boolean, deadlineMs: number): Promise<void> {
    const isOver = await this.#waiting.until(() => condition(this) || this.#trouble !== undefined, deadlineMs);
    if (this.#trouble !== undefined) throw new Error(this.#trouble);
    if (isOver) return;
    throw new Error(`it did not happen within ${deadlineMs / 1000} s`);
  }

  #notice(at: number, thing: KnownThing): void {
    const text = JSON.stringify(thing);
    if (text === this.#known) return;
    this.#known = text;
    this.#happenings.push({ kind: 'known', at, thing });
  }
}

function known({ thingId, serialNumber, apiKey, activations, currentVersionId }: Thing): KnownThing {
  return {
    thingId,
    serialNumber,
    apiKey,
    activations,
    ...(currentVersionId === undefined ? {} : { currentVersionId }),
  };
}

/** By sgdisk(8). */
export async function partitionsOf(disk: string): Promise<Partition[]> {
  const listed = await tool(['sgdisk', '--print', disk]);
  return [...listed.matchAll(/^ +\d+ +(\d+) +(\d+) +\S+ \S+ +\S+ +(\S+)$/gm)].map(([, start, end, name = '']) => ({
    name,
    sector: Number(start),
    sectors: Number(end) - Number(start) + 1,
  }));
}
