import { silentLog } from '../../../../src/system/log/log.ts';
import { FileJournal } from '../../../../src/update/journal/journal.ts';
import type { Journal } from '../../../../src/update/journal/journal.ts';
import { deliverOutbox } from '../../../../src/update/outbox.ts';
import type { InstallOutcome, Outcome } from '../../../../src/update/outcome.ts';
import { findCandidate } from '../../../../src/update/policy/choose.ts';
import type { UpdatePorts } from '../../../../src/update/policy/install-request.ts';
import { planUpdate } from '../../../../src/update/policy/plan.ts';
import type { Plan } from '../../../../src/update/policy/plan.ts';
import type { FirmwareSource, Target } from '../../../../src/update/ports.ts';
import type { OpenFirmware } from '../../../../src/update/ports/incoming.ts';
import { otherSlot } from '../../../../src/update/slot.ts';
import { startRollback } from '../../../../src/update/trial/manual-rollback.ts';
import { recoverUpdate } from '../../../../src/update/trial/recovery.ts';
import { update } from '../../../../src/update/update.ts';
import { Power, seededRandom } from '../power.ts';
import { FakeBootloader } from './fake-bootloader.ts';
import { ForgetfulFs } from './forgetful-fs.ts';
import { MemoryBoard } from './memory-board.ts';
import type { MemoryService } from './memory-service.ts';
import { MemorySlots } from './memory-slots.ts';
import { portSettings, portsWith } from './ports.ts';

export interface GatewayOptions {
  readonly service: MemoryService;
  readonly openFirmware: OpenFirmware;
  readonly slots: { readonly A: string; readonly B: string };
  /** A second pair, `boot`, as a Raspberry Pi has. */
  readonly bootSlots?: { readonly A: string; readonly B: string };
  /** Boards by target, with their initial programs. */
  readonly boards?: Readonly<Record<string, string>>;
  /** The same of packages of the system that runs. */
  readonly packages?: Readonly<Record<string, string>>;
  /** Content of a slot → what it calls itself. */
  readonly imageVersion?: (content: string) => string | undefined;
  readonly seed?: number;
  /** `[trust] downgrade` */
  readonly downgrade?: 'allow' | 'refuse';
  /** Content of a slot → what the health gate complains about; `hang`: the agent never gets to run there. */
  readonly complaint?: (content: string) => string | undefined;
  /** Content of a slot → whether the service can be had from there; always, if not given. */
  readonly reaches?: (content: string) => boolean;
}

const { attempts: ATTEMPTS, quarantineMs: QUARANTINE_MS } = portSettings;

/** The reboot command was called: the caller must reboot now. */
class RebootStarted extends Error {}

const signal = new AbortController().signal;

/** A whole gateway in memory: power, disk, slots, bootloader, and the update room as the daemon would drive it. */
export class Gateway {
  readonly power = new Power();
  readonly fs: ForgetfulFs;
  readonly slots: MemorySlots;
  readonly bootSlots: MemorySlots | undefined;
  readonly bootloader: FakeBootloader;
  readonly boards: ReadonlyMap<string, MemoryBoard>;
  readonly #options: GatewayOptions;
  #boots = 0;
  #attempts = 0;
  #journal: Journal | undefined;

  constructor(options: GatewayOptions) {
    const random = seededRandom(options.seed ?? 1);
    this.#options = options;
    this.fs = new ForgetfulFs(this.power, random);
    this.slots = new MemorySlots('gateway', options.slots, this.power, random);
    if (options.bootSlots !== undefined) {
      this.bootSlots = new MemorySlots('boot', options.bootSlots, this.power, random);
    }
    this.bootloader = new FakeBootloader(this.power, random);
    const boards = Object.entries(options.boards ?? {});
    const packages = Object.entries(options.packages ?? {});
    this.boards = new Map([
      ...boards.map(([name, image]) => [name, new MemoryBoard(name, image, this.power)] as const),
      ...packages.map(
        ([name, image]) => [name, new MemoryBoard(name, image, this.power, { kind: 'package' })] as const,
      ),
    ]);
  }

  get service(): MemoryService {
    return this.#options.service;
  }

  get running(): string {
    return this.slots.content(this.bootloader.booted);
  }

  /** Loses unflushed data and lets the bootloader choose. */
  reboot(): void {
    this.power.restore();
    this.fs.forget();
    this.slots.forget();
    this.bootSlots?.forget();
    this.start();
  }

  /** A clean restart: everything was flushed. */
  start(): void {
    this.#journal = undefined;
    this.#boots += 1;
    this.bootloader.boot();
    for (const pair of this.#pairs) pair.booted = this.bootloader.booted;
    if (this.#options.complaint?.(this.running) === 'hang') this.start();
  }

  get #pairs(): readonly MemorySlots[] {
    return this.bootSlots === undefined ? [this.slots] : [this.slots, this.bootSlots];
  }

  async journal(): Promise<Journal> {
    this.#journal ??= await FileJournal.open('/state', silentLog, this.fs.api);
    return this.#journal;
  }

  async settle(): Promise<Outcome> {
    return this.#untilReboot(async () => recoverUpdate(await this.ports()), {
      kind: 'rebooting',
      version: '',
      slot: 'A',
      reason: '',
    });
  }

  /** Runs one update cycle of the daemon: recover, report to the service, check, plan, install. */
  async look(force = false): Promise<Plan | Outcome> {
    const settled = await this.settle();
    if (settled.kind === 'rebooting' || settled.kind === 'reboot-required') return settled;
    const ports = await this.ports();
    await deliverOutbox({ ...ports, service: this.service, outcomeProperty: 'update_outcome' }, signal);
    const { state } = ports.journal;
    const offered = await findCandidate({ kind: 'target' }, { state }, this.service, signal);
    const plan = planUpdate(state, offered, {
      policy: { attempts: ATTEMPTS, window: undefined, quarantineMs: QUARANTINE_MS },
      nowMs: 0,
      minuteOfDay: 0,
      meteredLink: undefined,
      configProblem: undefined,
      manual: true,
      force,
    });
    if (plan.kind !== 'install') return plan;
    return this.install(plan.version.id, this.service.firmware(plan.version.id), force);
  }

  async install(versionId: string, source: FirmwareSource, force = false): Promise<InstallOutcome> {
    const ports = await this.ports();
    const known = this.service.versions.find(({ id }) => id === versionId);
    const version = known ?? { id: versionId, name: `version ${versionId}` };
    const order = { version, by: 'service', source, reboot: true, force } as const;
    return this.#untilReboot(() => update(order, ports), {
      kind: 'rebooting',
      version: version.name,
      slot: 'A',
    });
  }

  /** Runs `agent rollback` as an operator. */
  async goBack(force = false): Promise<InstallOutcome> {
    const slot = otherSlot(this.bootloader.booted);
    return this.#untilReboot(async () => startRollback(slot, { reboot: true, force }, await this.ports()), {
      kind: 'rebooting',
      version: '',
      slot,
    });
  }

  /** Runs update cycles and reboots until nothing changes, as a daemon would over days. Bounded. */
  async run(): Promise<Plan | Outcome> {
    for (let round = 0; round < 40; round += 1) {
      const result = await this.look();
      if (result.kind === 'rebooting') this.start();
      else if (result.kind !== 'reboot-required' && result.kind !== 'install' && result.kind !== 'installed')
        return result;
    }
    throw new Error('the gateway never comes to rest');
  }

  async ports(): Promise<UpdatePorts> {
    return portsWith({
      signal,
      journal: await this.journal(),
      bootloader: this.bootloader,
      targets: new Map<string, Target>(
        [...this.#pairs, ...this.boards.values()].map((target) => [target.name, target]),
      ),
      openFirmware: this.#options.openFirmware,
      health: {
        check: async () => {
          const reason = this.#options.complaint?.(this.running);
          if (reason !== undefined) return { code: 'unhealthy', reason };
          return (await this.#reachesService()) ? undefined : { code: 'service-unreached', reason: 'no answer' };
        },
        reachesService: () => this.#reachesService(),
      },
      machine: {
        bootId: async () => String(this.#boots),
        reboot: async () => {
          throw new RebootStarted();
        },
      },
      imageVersion: async () => this.#options.imageVersion?.(this.running),
      newAttemptId: () => {
        this.#attempts += 1;
        return `attempt-${this.#attempts}`;
      },
      settings: { ...portSettings, release: { nameCheck: 'strict', downgrade: this.#options.downgrade ?? 'allow' } },
    });
  }

  async #reachesService(): Promise<boolean> {
    return this.#options.reaches?.(this.running) ?? true;
  }

  async #untilReboot<T>(work: () => Promise<T>, rebooting: T): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof RebootStarted) return rebooting;
      throw error;
    }
  }
}
