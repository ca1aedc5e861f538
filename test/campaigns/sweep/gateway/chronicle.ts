import type { Identity, IdentityStore } from '../../../../src/service/identity.ts';
import { CANCELLED_BEFORE_BOOT } from '../../../../src/update/journal/endings.ts';
import type { Journal } from '../../../../src/update/journal/journal.ts';
import { advance } from '../../../../src/update/journal/reducer.ts';
import type { StateAfter } from '../../../../src/update/journal/reducer.ts';
import type { EventOf, EventType, UpdateState } from '../../../../src/update/journal/state.ts';
import { hasSlotPayload, initialState } from '../../../../src/update/journal/state.ts';
import type { Bootloader, BootState, Machine, SlotName, Verified } from '../../../../src/update/ports.ts';
import { UNKNOWN_DIGEST } from '../../../../src/update/running-version.ts';
import { NO_FILE } from '../../../fakes/machine/memory/forgetful-fs.ts';
import { Violation } from '../violation.ts';
import { contentOf, isDigestOf } from './catalog.ts';
import type { Catalog, CatalogEntry } from './catalog.ts';
import { JOURNAL } from './hardware.ts';
import type { Hardware } from './hardware.ts';
import { KeptLists, noLists } from './kept-lists.ts';
import type { KeptListsState } from './kept-lists.ts';

const lostJournal = JSON.stringify({ ...initialState, phase: { kind: 'lost' } });

/** Possible contents after an interruption; undefined for none. */
type Possible = Set<string | undefined>;

export interface ChronicleState {
  readonly journals: readonly (string | undefined)[];
  readonly identities: readonly (string | undefined)[];
  readonly begun: readonly string[];
  readonly former: readonly string[];
  readonly trying: SlotName | undefined;
  readonly tryingWith: string | undefined;
  readonly kept: SlotName;
  readonly keeping: SlotName | undefined;
  readonly keptBefore: SlotName | undefined;
  readonly ran: Readonly<Partial<Record<SlotName, string | undefined>>>;
  /** Default: those in the current boot order. */
  readonly others?: readonly string[] | undefined;
  readonly lists: KeptListsState;
}

export const newChronicle: ChronicleState = {
  journals: [undefined],
  identities: [undefined],
  begun: [],
  former: [],
  trying: undefined,
  tryingWith: undefined,
  kept: 'A',
  keeping: undefined,
  keptBefore: undefined,
  ran: {},
  lists: noLists,
};

/**
 * Records commitments to the program under test and its changes to the boot environment. It wraps the program's ports,
 * and checks each action when it happens.
 */
export class Chronicle {
  readonly #hardware: Hardware;
  readonly #catalog: Catalog;
  /** Journal of the running program. */
  #journal: Journal | undefined;
  /** Possible contents of the journal's file: the last acknowledged one, and any written since. */
  readonly journals: Possible;
  /** The same of the key in the identity's file. */
  readonly identities: Possible;
  /** Attempts whose begin was acknowledged. */
  readonly begun: Set<string>;
  /** Attempts that ended in hardware with another serial number. */
  readonly former: Set<string>;
  /** Armed, or about to be armed, and neither committed nor discarded since. */
  trying: SlotName | undefined;
  /** The digest of the firmware that it was armed for last. */
  tryingWith: string | undefined;
  /** Committed last. */
  kept: SlotName;
  /** About to be committed. */
  keeping: SlotName | undefined;
  /**
   * The version that the journal on the disk still calls installed: after a fallback of the bootloader, the running
   * version was committed while the journal was unreadable, since the state directory was in memory, or the disk
   * failed. So the journal could not record it first. It is recorded before the next commit with a journal.
   */
  keptBefore: SlotName | undefined;
  readonly lists: KeptLists;
  /** The version in a slot when it was committed last. */
  ran: Partial<Record<SlotName, string | undefined>>;
  /** Names in the boot order that are not slots. */
  readonly others: readonly string[];
  /** An operator committed it, healthy or not. */
  keptByHand = false;
  /** The first one; it was thrown into the program, too, which might swallow it. */
  violation: Violation | undefined;

  constructor(hardware: Hardware, catalog: Catalog, state: ChronicleState) {
    this.#hardware = hardware;
    this.#catalog = catalog;
    this.journals = new Set(state.journals);
    this.identities = new Set(state.identities);
    this.begun = new Set(state.begun);
    this.former = new Set(state.former);
    this.trying = state.trying;
    this.tryingWith = state.tryingWith;
    this.kept = state.kept;
    this.keeping = state.keeping;
    this.keptBefore = state.keptBefore;
    this.ran = { ...state.ran };
    this.lists = new KeptLists(state.lists);
    this.others = state.others ?? hardware.boot.others;
  }

  get state(): ChronicleState {
    const { trying, tryingWith, kept, keeping, keptBefore, others } = this;
    const ran = { ...this.ran };
    const [journals, identities, begun] = [[...this.journals], [...this.identities], [...this.begun]];
    const former = [...this.former];
    return {
      journals,
      identities,
      begun,
      former,
      trying,
      tryingWith,
      kept,
      keeping,
      keptBefore,
      ran,
      others,
      lists: this.lists.state,
    };
  }

  journalWasLost = false;
  /** Returns whether the service gives a delta's version as a full image. */
  servesWhole: (versionId: string) => boolean = () => false;

  /** The medium has lost the journal, and with it what it knew of attempts. */
  journalIsLost(text: string): void {
    this.journalWasLost = true;
    reduceTo(this.journals, text);
    this.journals.add(lostJournal);
    this.begun.clear();
  }

  /** False for a name that the journal invented. */
  knows(id: string): boolean {
    return this.#catalog.list.some((entry) => entry.id === contentOf(id));
  }

  /** The version with this id at the service and in the journal. */
  entry(id: string): CatalogEntry {
    return this.#catalog.entry(id);
  }

  /** The image that a slot certainly holds; undefined for an unknown one. */
  imageIn(slot: SlotName): CatalogEntry | undefined {
    const { slots, bootSlots } = this.#hardware;
    const holdsAll = ({ bytes, boot }: CatalogEntry): boolean =>
      slots.holds(slot, bytes) && (bootSlots?.holds(slot, Buffer.from(boot, 'latin1')) ?? true);
    return this.#catalog.list.find((entry) => entry.bytes.length > 0 && holdsAll(entry));
  }

  journal(inner: Journal): Journal {
    this.#journal = inner;
    let last: Promise<unknown> = Promise.resolve();
    const append = async <T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> => {
      this.#judgeEvent(event, inner.state);
      this.journals.add(JSON.stringify(inner.state));
      this.journals.add(JSON.stringify(advance(inner.state, event)));
      this.#forgetCalledOff(event, inner.state);
      const before = inner.state;
      const state = await this.#beginningAnew(async () => inner.append(event)).catch((error: unknown) => {
        // a new journal was begun, and the event was being written to it
        if (inner.state !== before) this.journals.add(JSON.stringify(advance(inner.state, event)));
        throw error;
      });
      reduceTo(this.journals, JSON.stringify(state));
      if (event.type === 'identity-changed') this.#ownerChanges(state);
      if ('attempt' in state.phase) this.begun.add(state.phase.attempt.id);
      return state;
    };
    return {
      get state() {
        return inner.state;
      },
      get missing() {
        return inner.missing;
      },
      get trouble() {
        return inner.trouble;
      },
      refresh: async () => this.#beginningAnew(async () => inner.refresh()),
      probe: async (roomBytes) => this.#beginningAnew(async () => inner.probe(roomBytes)),
      append: async (event) => {
        const turn = last.then(async () => append(event));
        last = turn.catch(() => undefined);
        return turn;
      },
    };
  }

  /** Removes a directory at the path of a file. */
  async #beginningAnew<T>(work: () => Promise<T>): Promise<T> {
    if (this.#hardware.disk.read(JOURNAL) === NO_FILE)
      for (const text of [undefined, lostJournal]) this.journals.add(text);
    return work();
  }

  /** The end of each attempt so far is for the former owner. One that continues is the new owner's. */
  #ownerChanges({ phase }: UpdateState): void {
    for (const id of this.begun) this.former.add(id);
    this.begun.clear();
    if (phase.kind === 'lost' && phase.interrupted !== undefined) this.begun.add(phase.interrupted.id);
  }

  identityStore(inner: IdentityStore): IdentityStore {
    const save = async (identity: Identity): Promise<void> => {
      this.identities.add(identity.apiKey);
      await inner.save(identity);
      reduceTo(this.identities, identity.apiKey);
    };
    return { load: () => inner.load(), save };
  }

  bootloader(inner: Bootloader): Bootloader {
    return {
      trialRebootArgument: inner.trialRebootArgument,
      bootedSlot: (signal): Promise<SlotName> => inner.bootedSlot(signal),
      onTrial: (signal): Promise<boolean> => inner.onTrial(signal),
      canary: (signal): Promise<void> => inner.canary(signal),
      inspect: (signal): Promise<BootState> => inner.inspect(signal),
      markUnbootable: async (slot, signal, lastWord): Promise<void> => {
        this.#judgeGivingUp(slot);
        await inner.markUnbootable(slot, signal, lastWord);
        if (this.trying === slot) this.trying = undefined;
      },
      tryOnce: async (slot, evidence, signal): Promise<void> => {
        this.#judgeEvidence(slot, evidence);
        this.#judgeMemory(slot);
        this.trying = slot;
        this.tryingWith = evidence.digest;
        await inner.tryOnce(slot, evidence, signal);
      },
      commit: async (slot, signal): Promise<void> => {
        this.#judgeCommit(slot, slot === this.keeping && !(await inner.onTrial(signal)));
        this.keeping = slot;
        this.#noteUntold(slot);
        this.ran[slot] = this.imageIn(slot)?.id;
        await inner.commit(slot, signal);
        this.kept = slot;
        this.keeping = undefined;
        if (this.trying === slot) this.trying = undefined;
      },
    };
  }

  #noteUntold(slot: SlotName): void {
    const { stateMount, diskRefuses } = this.#hardware;
    const isUnreadable = this.#journal?.missing !== undefined && (stateMount.isInMemory || diskRefuses);
    if (!isUnreadable) this.keptBefore = undefined;
    else if (slot !== this.kept) this.keptBefore ??= this.kept;
  }

  /** The program's own reboots. */
  machine(inner: Machine, journal: Journal): Machine {
    return {
      bootId: (): Promise<string> => inner.bootId(),
      reboot: async (argument, signal): Promise<void> => {
        this.#judgeReboot(journal.state);
        await inner.reboot(argument, signal);
      },
    };
  }

  /** A rollback that was cancelled before it began needs no report. */
  #forgetCalledOff(event: { readonly type: EventType; readonly code?: unknown }, { phase }: UpdateState): void {
    if (event.type !== 'rolled-back' || event.code !== CANCELLED_BEFORE_BOOT.code) return;
    if ('attempt' in phase && phase.attempt.by === 'rollback') this.begun.delete(phase.attempt.id);
  }

  /** Checks that the journal's record matches the bootloader. */
  #judgeEvent({ type }: { readonly type: EventType }, { phase }: UpdateState): void {
    if (type === 'slot-opened' && phase.kind === 'staging') this.#judgeBase(phase.attempt.version.id ?? '');
    if (type !== 'trial-armed' || !('slot' in phase) || this.trying === phase.slot) return;
    throw this.#violation(`the journal is to say that slot ${phase.slot} is armed, and it is not`);
  }

  /** A delta with another base must not discard the slot's content. */
  #judgeBase(id: string): void {
    const { base } = this.knows(id) ? this.entry(id) : {};
    const runs = this.imageIn(this.#hardware.boot.booted)?.id;
    if (base === undefined || base === runs || this.servesWhole(id)) return;
    throw this.#violation(`a slot is opened for ${id}, which is a delta of ${base}, and ${runs} runs`);
  }

  /** The committed slot stays, whatever happened to the journal or the service. */
  #judgeGivingUp(slot: SlotName): void {
    if (slot !== this.#hardware.boot.booted || slot !== this.kept || slot === this.trying) return;
    throw this.#violation(`slot ${slot} runs and was committed, and is to be given up`);
  }

  /**
   * A slot found bad can no longer boot after a reboot; the target of a manual rollback can, but not as the next one.
   */
  #judgeReboot({ phase }: UpdateState): void {
    if (phase.kind !== 'rolling-back' || !hasSlotPayload(phase.firmware)) return;
    const { boot } = this.#hardware;
    const isFallback = phase.attempt.by === 'rollback' && phase.fault !== 'firmware';
    if (isFallback ? boot.next !== phase.slot : !boot.bootable.includes(phase.slot)) return;
    throw this.#violation(`slot ${phase.slot} is left, and may boot again`);
  }

  #judgeEvidence(slot: SlotName, evidence: Verified): void {
    const entry = this.imageIn(slot);
    if (this.#isRevoked(entry, evidence.digest)) throw this.#violation(`slot ${slot} is armed, and was revoked`);
    if (entry !== undefined && isDigestOf(entry, evidence.digest)) return;
    // It ran and is unchanged. It was never verified, or the last update of its system was for boards only.
    const isNoImage = evidence.digest === UNKNOWN_DIGEST || this.#catalog.forBoardsAlone(evidence.digest) !== undefined;
    if (isNoImage && entry !== undefined && this.ran[slot] === entry.id) return;
    throw this.#violation(`slot ${slot} is armed with evidence of ${evidence.digest}, but holds ${describe(entry)}`);
  }

  /**
   * `mayBeMade`: it had begun before an interruption, which may have come after the bootloader's write, or after the
   * first of a handler's calls: this boot is then no trial. A list applied since comes too late for it.
   */
  #judgeCommit(slot: SlotName, mayBeMade: boolean): void {
    // a commit in progress was decided with the available state, whether the interruption came before or after it
    if (slot === this.trying && slot !== this.keeping) this.#judgeMemory(slot);
    const entry = this.imageIn(slot);
    if (entry === undefined) throw this.#violation(`slot ${slot} is committed, but holds no image that we know`);
    if (!this.keptByHand && !/^(?:good|flap)/.test(entry.image)) {
      throw this.#violation(`slot ${slot} is committed with "${entry.image}"`);
    }
    if (slot === this.trying && !mayBeMade && this.#isRevoked(entry, this.tryingWith)) {
      throw this.#violation(`slot ${slot} is committed with "${entry.image}", which was revoked`);
    }
    if (slot === this.trying) this.#judgeMeter(slot, entry);
  }

  #judgeMeter(slot: SlotName, entry: CatalogEntry): void {
    const { running } = this.#hardware.board;
    const { meter } = this.#catalog.forBoardsAlone(this.tryingWith) ?? entry;
    if (this.journalWasLost || meter === running) return;
    throw this.#violation(`slot ${slot} is committed with "${entry.image}" while the meter runs "${running}"`);
  }

  /** A start would have no record of it. */
  #judgeMemory(slot: SlotName): void {
    if (!this.#hardware.stateMount.isInMemory) return;
    throw this.#violation(`slot ${slot} is armed or kept while the state directory lies in memory`);
  }

  /** `digest`: the digest of the attempt. Without its journal, the agent knows no release for a manual rollback. */
  #isRevoked(entry: CatalogEntry | undefined, digest: string | undefined): boolean {
    if (digest === UNKNOWN_DIGEST) return false;
    const { releases, keys } = this.lists;
    return releases.has(entry?.digest ?? '') || keys.has(entry?.signedBy ?? '');
  }

  /** The program might handle a reported violation as an ordinary error. */
  watch(judge: () => void): void {
    try {
      judge();
    } catch (error) {
      if (error instanceof Violation) this.violation ??= error;
      throw error;
    }
  }

  #violation(message: string): Violation {
    this.violation ??= new Violation(message);
    return this.violation;
  }
}

export function reduceTo(possible: Possible, text: string | undefined): void {
  possible.clear();
  possible.add(text);
}

function describe(entry: CatalogEntry | undefined): string {
  return entry === undefined ? 'no image that we know' : `"${entry.image}"`;
}
