import type { OperationOutcome } from '../../../src/control/events.ts';
import { AgentError } from '../../../src/system/errors.ts';
import type { UpdateState } from '../../../src/update/journal/state.ts';
import { NO_FILE } from '../../fakes/machine/memory/forgetful-fs.ts';
import { Faults } from './faults.ts';
import type { Fault, FaultCounts } from './faults.ts';
import type { Catalog } from './gateway/catalog.ts';
import { Chronicle, newChronicle, reduceTo } from './gateway/chronicle.ts';
import type { ChronicleState } from './gateway/chronicle.ts';
import { factoryState, Hardware, JOURNAL } from './gateway/hardware.ts';
import type { HardwareState } from './gateway/hardware.ts';
import { MemoryTransport, newService } from './gateway/memory-transport.ts';
import type { ServiceState, TransportParts } from './gateway/memory-transport.ts';
import { AgentEnded } from './gateway/package-machine.ts';
import { ignoreEvents, Program } from './gateway/program.ts';
import type { ProgramParts } from './gateway/program.ts';
import {
  judgeFiles,
  judgeNeed,
  judgeOwner,
  judgeRemains,
  judgeReporter,
  judgeSwitch,
  judgeTransfer,
  storedKey,
  storedList,
  storedState,
} from './invariants.ts';
import type { Gateway } from './invariants.ts';
import type { Scenario } from './story.ts';
import { Violation } from './violation.ts';

/**
 * `after`: number of durable changes since the last interruption. `kill`: only the program ends; the machine continues.
 */
export interface Cut {
  readonly kind: 'power' | 'kill';
  readonly after: number;
}

/** Everything that makes a history: the same case always plays the same. */
export interface Case {
  readonly scenario: string;
  readonly seed: number;
  readonly cuts: readonly Cut[];
  readonly faults: readonly Fault[];
}

/** A gateway at a moment in which nothing runs, and all that is left is durable. */
export interface Remains {
  readonly hardware: HardwareState;
  readonly service: ServiceState;
  readonly chronicle: ChronicleState;
  readonly faultChances: FaultCounts;
  readonly cutsMade: number;
  /** The machine runs, and only the program was killed. */
  readonly isUp: boolean;
}

/** The scenario and its machine. */
export interface Script {
  readonly scenario: Scenario;
  readonly given: Case;
  readonly catalog: Catalog;
}

/** Starts in a row without an agent that runs. */
const MAX_STARTS = 12;

/** How one operation ended. */
export type Ended =
  | OperationOutcome
  | { readonly kind: 'failed'; readonly error: AgentError }
  | { readonly kind: 'cut' };

/** A gateway that lives through the cuts and faults of one case: power, starts, and one program after the other. */
export class Life {
  readonly gateway: Gateway;
  readonly #cuts: readonly Cut[];
  readonly #parts: ProgramParts;
  /** Called when what is left of a cut has been judged, before the gateway starts again. */
  readonly #onCut: () => void;
  #cutsMade: number;
  #isUp: boolean;
  #program: Program | undefined;
  /** The daemon's recovery is complete. */
  #hasSettled = false;

  constructor({ scenario, given, catalog }: Script, from: Remains | undefined, onCut: () => void) {
    const faults = new Faults(given.faults, from?.faultChances);
    const hardware = new Hardware(
      scenario.boot,
      given.seed,
      faults,
      from?.hardware ?? factoryState(catalog.entry('v1'), scenario.delivery),
    );
    const chronicle = new Chronicle(hardware, catalog, from?.chronicle ?? newChronicle);
    hardware.onJournalLost = (text) => chronicle.journalIsLost(text);
    const onSwitch = (versionId: string): void => chronicle.watch(() => judgeSwitch(this.gateway, versionId));
    const onTransfer: TransportParts['onTransfer'] = (versionId, position) => {
      if (given.faults.length > 0) return;
      chronicle.watch(() => judgeTransfer(hardware, versionId, position));
      if (scenario.imagesNameThemselves) chronicle.watch(() => judgeNeed(this.gateway, versionId));
    };
    const onKey: TransportParts['onKey'] = (owner) => chronicle.watch(() => judgeOwner(hardware, owner));
    const onReport: TransportParts['onReport'] = (report) => chronicle.watch(() => judgeReporter(chronicle, report));
    const parts = { catalog, power: hardware.power, faults, onSwitch, onTransfer, onKey, onReport };
    const transport = new MemoryTransport(parts, from?.service ?? newService);
    chronicle.servesWhole = (id) => transport.whole.includes(id);
    this.gateway = { hardware, chronicle, transport };
    this.#parts = {
      hardware,
      chronicle,
      transport,
      trust: catalog.trust,
      follow: scenario.follow,
      imagesNameThemselves: scenario.imagesNameThemselves,
      waitsFor: scenario.waitsFor,
    };
    this.#cuts = given.cuts;
    this.#onCut = onCut;
    this.#cutsMade = from?.cutsMade ?? 0;
    this.#isUp = from?.isUp ?? false;
    hardware.reseed(this.#cutsMade);
    this.#armNextCut();
  }

  get cutsMade(): number {
    return this.#cutsMade;
  }

  /** As the program knows it; without one, as the disk does. */
  get state(): UpdateState | undefined {
    return this.#program?.journal.state ?? storedState(this.gateway.hardware);
  }

  /** False: the disk failed, so that it may say something else after a restart than the program knows. */
  get isOfOneMind(): boolean {
    return JSON.stringify(this.state) === this.gateway.hardware.disk.read(JOURNAL);
  }

  get remains(): Remains {
    const { hardware, transport, chronicle } = this.gateway;
    return {
      hardware: hardware.state,
      service: transport.state,
      chronicle: chronicle.state,
      faultChances: hardware.faults.seen,
      cutsMade: this.#cutsMade,
      isUp: this.#isUp,
    };
  }

  /** Drops the remaining interruptions and faults. */
  calm(): void {
    this.gateway.hardware.power.restore();
    this.gateway.hardware.faults.end();
  }

  /** As a daemon does: first of all it settles. */
  async serve(work: (program: Program) => Promise<OperationOutcome>): Promise<Ended> {
    if (!this.#hasSettled || this.#program === undefined) {
      this.#hasSettled = true;
      const settled = await this.act(async (program) => {
        await program.updater.settle(ignoreEvents, program.signal);
        return { kind: 'up-to-date', version: '' };
      });
      if (settled.kind === 'cut' || settled.kind === 'rebooting') return settled;
    }
    return this.act(work);
  }

  /** Off and on, or an orderly reboot with its argument. */
  restart(reboot?: { readonly argument: string | undefined }): void {
    const { hardware } = this.gateway;
    let orderly = reboot;
    for (let starts = 0; starts < MAX_STARTS; starts += 1) {
      this.#endProgram();
      try {
        if (orderly !== undefined) {
          hardware.power.step('shutdown');
          hardware.sync();
        }
        hardware.start(orderly?.argument);
        this.#isUp = true;
        if (!hardware.isDead) return;
        hardware.forget(this.#cutsMade);
      } catch (error) {
        if (!hardware.power.isOut) throw error;
        this.#isUp = false;
        this.#judgeCut('power');
      }
      orderly = undefined;
    }
    throw new Violation(`no agent runs after ${MAX_STARTS} starts`);
  }

  /** Switches the machine off, and puts its medium into one with another serial number. */
  moveCard(): void {
    const { hardware } = this.gateway;
    hardware.sync();
    hardware.serialNumber = `${hardware.serialNumber}I`;
    this.restart();
  }

  /** As an operator does after `identity-foreign`. */
  restartAgent(): void {
    this.#endProgram();
  }

  /** Starts that do not reach the agent, until the bootloader gives the slot up. */
  fallBack(): void {
    const { boot } = this.gateway.hardware;
    const before = boot.booted;
    for (let starts = 0; starts < MAX_STARTS && boot.booted === before; starts += 1) this.restart();
  }

  /** Acts as an operator without a daemon, or with another process. */
  async act(work: (program: Program) => Promise<OperationOutcome>): Promise<Ended> {
    const { hardware, chronicle } = this.gateway;
    if (!this.#isUp) this.restart();
    if (!(await this.#letGuardWork())) return { kind: 'cut' };
    const ended = await this.#attempt(work);
    if (chronicle.violation !== undefined) throw chronicle.violation;
    if (hardware.power.isOut) {
      this.#judgeCut(this.#cuts[this.#cutsMade]?.kind ?? 'power');
      return { kind: 'cut' };
    }
    if (hardware.rebootAsked === undefined) return ended;
    this.restart(hardware.rebootAsked);
    return { kind: 'rebooting', version: '', slot: 'A' };
  }

  /** False after an interruption. */
  async #letGuardWork(): Promise<boolean> {
    const { app, power } = this.gateway.hardware;
    try {
      await app.work();
      return true;
    } catch (error) {
      if (!power.isOut) throw error;
      this.#judgeCut(this.#cuts[this.#cutsMade]?.kind ?? 'power');
      return false;
    }
  }

  async #attempt(work: (program: Program) => Promise<OperationOutcome>): Promise<Ended> {
    try {
      this.#program ??= await this.#startProgram();
      return await work(this.#program);
    } catch (error) {
      if (error instanceof AgentError) return { kind: 'failed', error };
      if (error instanceof AgentEnded) {
        this.#endProgram();
        return { kind: 'cut' };
      }
      if (error instanceof Violation || this.gateway.hardware.power.isOut) return { kind: 'cut' };
      throw new Violation(`a bug: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  }

  /** The program acts on the state that it found: no interruption may revert it. */
  async #startProgram(): Promise<Program> {
    const program = await Program.start(this.#parts);
    const { hardware, chronicle } = this.gateway;
    const found = hardware.disk.read(JOURNAL);
    if (hardware.power.isOut) return program;
    chronicle.watch(() => judgeFiles(this.gateway));
    const isRead = program.journal.missing === undefined || found === undefined;
    // A folder that was set aside just before a kill may be back: until a journal is there, nothing was decided.
    const maySlipBack = found === undefined && chronicle.journals.has(NO_FILE);
    if (isRead) reduceTo(chronicle.journals, found);
    if (maySlipBack) chronicle.journals.add(NO_FILE);
    return program;
  }

  #judgeCut(kind: Cut['kind']): void {
    const { hardware, chronicle } = this.gateway;
    const isKill = kind === 'kill' && this.#isUp && !hardware.wasReset;
    this.#endProgram();
    const { wasReset } = hardware;
    hardware.wasReset = false;
    if (!wasReset) this.#cutsMade += 1;
    if (!isKill) {
      this.#isUp = false;
      hardware.forget(this.#cutsMade);
    }
    judgeRemains(this.gateway);
    if (!isKill) {
      reduceTo(chronicle.journals, hardware.disk.read(JOURNAL));
      reduceTo(chronicle.identities, storedKey(hardware));
      chronicle.lists.found(storedList(hardware));
    }
    if (wasReset) {
      hardware.power.resume();
      return;
    }
    this.#armNextCut();
    this.#onCut();
  }

  #armNextCut(): void {
    this.gateway.hardware.power.cutAfter(this.#cuts[this.#cutsMade]?.after ?? Number.POSITIVE_INFINITY);
  }

  #endProgram(): void {
    this.#program?.end();
    this.#program = undefined;
    this.#hasSettled = false;
  }
}
