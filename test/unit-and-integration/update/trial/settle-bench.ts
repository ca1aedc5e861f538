import type { AgentError } from '../../../../src/system/errors.ts';
import { StorageError } from '../../../../src/system/files/durable-file.ts';
import { MemoryJournal } from '../../../../src/update/journal/journal.ts';
import type { StateAfter } from '../../../../src/update/journal/reducer.ts';
import type {
  EventOf,
  EventType,
  FirmwareRecord,
  Installed,
  UpdateState,
} from '../../../../src/update/journal/state.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import { commitManually } from '../../../../src/update/manual.ts';
import type { Deferral } from '../../../../src/update/outcome.ts';
import type { UpdatePorts } from '../../../../src/update/policy/install-request.ts';
import type { SlotName, SlotsTarget, Target } from '../../../../src/update/ports.ts';
import { recoverUpdate } from '../../../../src/update/trial/recovery.ts';
import { FakeBootloader } from '../../../fakes/machine/memory/fake-bootloader.ts';
import type { FakeStyle } from '../../../fakes/machine/memory/fake-bootloader.ts';
import { MemoryBoard } from '../../../fakes/machine/memory/memory-board.ts';
import { portsWith } from '../../../fakes/machine/memory/ports.ts';
import { Power } from '../../../fakes/machine/power.ts';
import { evidence } from '../../slots/bootloaders/bootloader-contract.ts';

const signal = new AbortController().signal;
export const attempt = { id: 'a1', version: { id: '2', name: 'two' }, by: 'service', startedAt: '' } as const;
export const rootfs = { target: 'gateway', kind: 'slots', sizeBytes: 1, digest: 'sha256:r' } as const;
export const firmware: FirmwareRecord = { digest: 'sha256:2', provides: {}, payloads: [rootfs] };
export const trial = {
  kind: 'trial',
  attempt,
  slot: 'B',
  firmware,
  trialsLeft: 1,
  bootId: 'before',
  rebootByHand: false,
  judgements: 1,
  approved: false,
  boards: {},
} as const;

export function installed(id: string, slot: SlotName): Installed {
  return { ...firmware, version: { id, name: `version ${id}` }, slot, at: '' };
}

/** A journal whose disk can be made to fail. */
class TroubledJournal extends MemoryJournal {
  /** The error of a disk that rejects writes. */
  broken: AgentError | undefined;
  probes = 0;

  override async probe(): Promise<void> {
    this.probes += 1;
    if (this.broken !== undefined) throw this.broken;
  }

  override async append<T extends EventType>(event: EventOf<T>): Promise<StateAfter<T>> {
    if (this.broken !== undefined) throw this.broken;
    return super.append(event);
  }
}

export function stateTrouble(code: 'disk-full' | 'state-unavailable'): AgentError {
  const errno = code === 'disk-full' ? 'ENOSPC' : 'EROFS';
  return new StorageError('write', '/state/journal.json', Object.assign(new Error(errno), { code: errno }));
}

/** A gateway that has just started, as far as settle() sees it. */
export class Bench {
  readonly bootloader: FakeBootloader;
  journal: TroubledJournal;
  checks = 0;
  readonly board = new MemoryBoard('meter', 'old meter', new Power());
  /** Content of slot B when it is read. */
  staged: string = rootfs.digest;
  complaint: string | undefined;
  reachesService = true;
  /** Reason why a list forbids the release on trial. */
  revocation: string | undefined;
  /** The power fails while the health is checked. */
  cut = false;
  reboots = 0;
  boots = 1;
  /** Reason why no update proceeds automatically. */
  hold: Deferral | undefined;
  /** The configuration names the board. */
  hasBoard = true;

  constructor(state: Partial<UpdateState>, style: FakeStyle = 'counters') {
    this.bootloader = new FakeBootloader(new Power(), () => 0, style);
    this.bootloader.boot();
    this.journal = new TroubledJournal({ ...initialState, slots: knownSlots({ ...initialState, ...state }), ...state });
  }

  /** Restarts the program with the durable part of the journal. */
  restart(): void {
    const { broken, missing, state } = this.journal;
    this.journal = Object.assign(new TroubledJournal(state), { broken, missing });
  }

  /** Slot B runs on trial. */
  async startTrial(): Promise<void> {
    await this.bootloader.tryOnce('B', evidence, signal);
    this.bootloader.boot(this.bootloader.trialRebootArgument);
  }

  async settle(): ReturnType<typeof recoverUpdate> {
    return recoverUpdate(this.ports);
  }

  /** Commits as an operator. */
  async commit(): ReturnType<typeof commitManually> {
    const deliver = async (): Promise<undefined> => undefined;
    return commitManually({ ports: this.ports, settle: async () => this.settle(), deliver });
  }

  get ports(): UpdatePorts {
    return portsWith({
      signal,
      journal: this.journal,
      bootloader: this.bootloader,
      targets: new Map<string, Target>([
        ['gateway', this.#slots],
        ...(this.hasBoard ? [['meter', this.board] as const] : []),
      ]),
      openFirmware: () => Promise.reject(new Error('nothing is staged')),
      health: {
        check: async () => {
          this.checks += 1;
          if (this.cut) throw new Error('cut');
          return this.complaint === undefined ? undefined : { code: 'unhealthy', reason: this.complaint };
        },
        reachesService: async () => this.reachesService,
      },
      machine: {
        bootId: async () => `boot ${this.boots}`,
        reboot: async () => {
          this.reboots += 1;
        },
      },
      revoked: async () => this.revocation,
      deferResume: () => this.hold,
    });
  }

  get #slots(): SlotsTarget {
    return {
      kind: 'slots',
      name: 'gateway',
      openSlot: () => Promise.reject(new Error('nothing is staged')),
      digestOf: async (slot) => (slot === 'B' ? this.staged : 'sha256:other'),
      openBase: () => Promise.reject(new Error('nothing is rebuilt')),
      isReadOnly: async () => true,
      copyInto: () => Promise.reject(new Error('nothing is copied')),
    };
  }
}

function recordsOf(
  { payloads, signedBy }: FirmwareRecord,
  { version, at }: Pick<Installed, 'version' | 'at'>,
): UpdateState['slots']['A']['records'] {
  const partitions = payloads.filter(({ kind, sizeBytes }) => kind === 'slots' && sizeBytes > 0);
  return Object.fromEntries(
    partitions.map(({ target, ...content }) => [target, { ...content, version: version.name, signedBy, at }]),
  );
}

/** Returns the records that these phases and versions imply: a staged slot was verified, an installed one was seen to run. */
function knownSlots({ installed, earlier, phase }: UpdateState): UpdateState['slots'] {
  const known = { ...initialState.slots };
  if ('firmware' in phase) {
    const { firmware, attempt, slot } = phase;
    known[slot] = { records: recordsOf(firmware, { version: attempt.version, at: attempt.startedAt }) };
  }
  for (const one of [...earlier, installed]) {
    if (one?.slot !== undefined) known[one.slot] = { records: recordsOf(one, one), seen: { at: one.at } };
  }
  return known;
}
