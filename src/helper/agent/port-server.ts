import type * as z from 'zod';

import type { HookPort } from '../../update/hooks/hooks.ts';
import type { FirmwareSource, FirmwareTransfer, ProvisioningService } from '../../update/ports.ts';
import type { HealthGate } from '../../update/trial/health-gate.ts';
import { HelperError } from '../errors.ts';
import { MAX_BODY_BYTES } from '../link/frame.ts';
import type { Answer, Served } from '../link/link.ts';
import type { OpenTray, Tray, TrayPlace } from '../link/tray.ts';
import { agentVerbs, MAX_TROUBLE } from '../verbs.ts';
import type { AgentVerb, Verb } from '../verbs.ts';
import { BoardServer } from './board-server.ts';
import type { FindBoard } from './board-server.ts';

/** What the helper may use of this side while an order runs. */
export interface AgentPorts {
  readonly service: ProvisioningService;
  readonly health: HealthGate;
  readonly hooks: Pick<HookPort, 'ask' | 'askInTurn' | 'tell'>;
  readonly meteredLink: () => Promise<string | undefined>;
  readonly configTrouble: () => Promise<string | undefined>;
  /** The file that is to be installed; undefined: it is another kind of order. */
  readonly file?: FirmwareSource | undefined;
  readonly board: FindBoard;
}

/** One transfer is read while the next one is opened. */
const MAX_TRANSFERS = 4;
/** The most bytes of firmware in one answer: each costs both processes as much as copying 1 MiB. */
const GATHERED_BYTES = MAX_BODY_BYTES;
/** So long an answer that has begun waits for more, so that a slow line does not make many of them. */
const GATHERING_MS = 20;

/** Answers the helper's requests within one order. It is disposed with the order. */
export class PortServer implements AsyncDisposable {
  readonly #ports: AgentPorts;
  readonly #tray: Tray;
  readonly #transfers = new Map<number, Transfer>();
  readonly #boards: BoardServer;
  #lastTransfer = 0;

  constructor(ports: AgentPorts, tray: Tray) {
    this.#ports = ports;
    this.#tray = tray;
    this.#boards = new BoardServer(ports.board);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#boards, ...this.#transfers.values()].map(async (part) => part[Symbol.asyncDispose]()));
    this.#transfers.clear();
  }

  async serve({ verb, input, body, signal }: Served): Promise<Answer> {
    const row = Object.entries(this.#rows).find(([name]) => name === verb)?.[1];
    if (row === undefined) throw new HelperError('link-malformed', 'there is no such verb');
    return row(input, signal, body);
  }

  readonly #rows: Readonly<Record<AgentVerb, Row>> = {
    currentVersion: row(agentVerbs.currentVersion, async (_input, signal) => this.#service.currentVersion(signal)),
    targetVersion: row(agentVerbs.targetVersion, async (_input, signal) => this.#service.targetVersion(signal)),
    updates: row(agentVerbs.updates, async ({ from }, signal) => ({
      versions: [...(await this.#service.updates(from, signal))],
    })),
    switchTo: row(agentVerbs.switchTo, async ({ versionId }, signal) => {
      await this.#service.switchTo(versionId, signal);
      return {};
    }),
    setProperty: row(agentVerbs.setProperty, async ({ propertyId, value }, signal) => {
      await this.#service.setProperty(propertyId, value, signal);
      return {};
    }),
    openFirmware: row(agentVerbs.openFirmware, async ({ versionId, from }, signal) => {
      const source = versionId === undefined ? this.#ports.file : this.#service.firmware(versionId);
      if (source === undefined || this.#transfers.size >= MAX_TRANSFERS)
        throw new HelperError('link-malformed', 'a transfer came out of turn');
      // the transfer outlives this call, and ends with the order
      const ending = new AbortController();
      const opened = await source.open(from, AbortSignal.any([signal, ending.signal]));
      const transfer = (this.#lastTransfer += 1);
      this.#transfers.set(transfer, new Transfer(opened, ending, this.#tray));
      const { startOffset, totalBytes, validator } = opened;
      return { transfer, startOffset, totalBytes, validator };
    }),
    readFirmware: async (input, _signal) => {
      const { transfer, place } = agentVerbs.readFirmware.input.parse(input);
      const found = this.#transfers.get(transfer);
      if (found === undefined) throw new HelperError('link-malformed', 'nothing is open to be read');
      return found.next(place);
    },
    closeFirmware: row(agentVerbs.closeFirmware, async ({ transfer }) => {
      const found = this.#transfers.get(transfer);
      this.#transfers.delete(transfer);
      await found?.[Symbol.asyncDispose]();
      return {};
    }),
    openBoard: row(agentVerbs.openBoard, async (order) => ({ job: this.#boards.open(order) })),
    feedBoard: row(agentVerbs.feedBoard, async ({ job }, _signal, piece) => {
      this.#boards.feed(job, piece);
      return {};
    }),
    stepBoard: async (input, signal) => this.#boards.step(agentVerbs.stepBoard.input.parse(input).job, signal),
    closeBoard: row(agentVerbs.closeBoard, async ({ job }) => {
      await this.#boards.close(job);
      return {};
    }),
    checkHealth: row(agentVerbs.checkHealth, async (_input, signal) => ({
      complaint: await this.#ports.health.check(signal),
    })),
    reachesService: row(agentVerbs.reachesService, async (_input, signal) => ({
      reached: await this.#ports.health.reachesService(signal),
    })),
    meteredLink: row(agentVerbs.meteredLink, async () => ({ link: await this.#ports.meteredLink() })),
    configTrouble: row(agentVerbs.configTrouble, async () => ({
      trouble: (await this.#ports.configTrouble())?.slice(0, MAX_TROUBLE),
    })),
    askHook: row(agentVerbs.askHook, async ({ hook, inTurn, about }, signal) => {
      const { hooks } = this.#ports;
      await (inTurn ? hooks.askInTurn : hooks.ask)(hook, about, signal);
      return {};
    }),
    tellHook: row(agentVerbs.tellHook, async ({ owed, installed }, signal) => ({
      trouble: await this.#ports.hooks.tell(owed, installed, signal),
    })),
  };

  get #service(): ProvisioningService {
    return this.#ports.service;
  }
}

type Row = (input: unknown, signal: AbortSignal, body?: Uint8Array) => Promise<Answer>;

function row<I extends z.ZodType, O extends z.ZodType>(
  verb: Verb<I, O>,
  perform: (input: z.output<I>, signal: AbortSignal, body?: Uint8Array) => Promise<z.input<O>>,
): Row {
  return async (input, signal, body) => ({ output: await perform(verb.input.parse(input), signal, body) });
}

/** Where chunks are copied to. */
interface Room {
  readonly sizeBytes: number;
  readonly put: (bytes: Uint8Array, at: number) => void;
}

/** A transfer whose chunks are copied, since each is valid only until the next one is asked for. */
class Transfer implements AsyncDisposable {
  /** One for all answers with bytes: the next one is read when this one was sent. */
  #gathered: Buffer | undefined;
  readonly #transfer: FirmwareTransfer;
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #ending: AbortController;
  readonly #tray: Tray;
  #openTray: Promise<OpenTray | undefined> | undefined;
  readonly #ended = Promise.withResolvers<void>();
  #rest: Uint8Array = new Uint8Array();
  /** The chunk that was already asked for. */
  #next: Promise<IteratorResult<Uint8Array>> | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(transfer: FirmwareTransfer, ending: AbortController, tray: Tray) {
    this.#transfer = transfer;
    this.#tray = tray;
    this.#chunks = transfer.chunks[Symbol.asyncIterator]();
    this.#ending = ending;
  }

  async next(place: TrayPlace | undefined): Promise<Answer> {
    const before = this.#turn;
    const { promise, resolve: onSent } = Promise.withResolvers<void>();
    this.#turn = promise;
    await Promise.race([before, this.#ended.promise]);
    try {
      this.#ending.signal.throwIfAborted();
      const onTray = await this.#roomOnTray(place);
      if (onTray !== undefined) {
        const laidBytes = await this.#read(onTray);
        onSent();
        return { output: laidBytes === 0 ? {} : { laidBytes } };
      }
      const gathered = (this.#gathered ??= Buffer.allocUnsafeSlow(GATHERED_BYTES));
      const room = { sizeBytes: gathered.byteLength, put: (bytes: Uint8Array, at: number) => gathered.set(bytes, at) };
      const body = gathered.subarray(0, await this.#read(room));
      return { output: {}, body, onSent };
    } catch (error) {
      onSent();
      // the transfer was closed, and whoever asked for this chunk does not read the answer
      if (this.#ending.signal.aborted) throw new HelperError('helper-lost', 'the transfer is closed', { cause: error });
      throw error;
    }
  }

  async #roomOnTray(place: TrayPlace | undefined): Promise<Room | undefined> {
    if (place === undefined) return undefined;
    const tray = await (this.#openTray ??= this.#tray.open());
    if (tray?.takesRoom(place) !== true) return undefined;
    return { sizeBytes: place.sizeBytes, put: (bytes, at) => tray.lay(bytes, place.at + at) };
  }

  /** What has arrived, or arrives in a moment, in one piece. Returns its length; 0: the end. */
  async #read(room: Room): Promise<number> {
    const late = Promise.withResolvers<undefined>();
    let sizeBytes = this.#takeRest(room, 0);
    let timer: NodeJS.Timeout | undefined;
    while (sizeBytes < room.sizeBytes) {
      this.#next ??= this.#chunks.next();
      if (sizeBytes > 0) timer ??= setTimeout(() => late.resolve(undefined), GATHERING_MS);
      // of a failure whoever waits for the next piece will learn
      const next = await (sizeBytes === 0
        ? this.#next
        : Promise.race([this.#next.catch(() => undefined), late.promise]));
      if (next === undefined || next.done === true) break;
      this.#next = undefined;
      this.#rest = next.value;
      sizeBytes += this.#takeRest(room, sizeBytes);
    }
    clearTimeout(timer);
    return sizeBytes;
  }

  #takeRest(room: Room, filledBytes: number): number {
    const taken = this.#rest.subarray(0, room.sizeBytes - filledBytes);
    if (taken.byteLength > 0) room.put(taken, filledBytes);
    // the source may reuse the old chunk as soon as the next one is asked for
    this.#rest = taken.byteLength < this.#rest.byteLength ? this.#rest.subarray(taken.byteLength) : new Uint8Array();
    return taken.byteLength;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.resolve();
    this.#ending.abort(new Error('the transfer is not wanted any more'));
    await (await this.#openTray)?.[Symbol.asyncDispose]();
    await this.#transfer[Symbol.asyncDispose]();
  }
}
