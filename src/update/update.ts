import { AgentError } from '../system/errors.ts';
import { retry } from '../system/time/retry.ts';
import type { RetryPolicy } from '../system/time/retry.ts';
import { attemptFor, heldBack, signedName } from './choice/attempt.ts';
import { endInstalled, findHeld, HeaderSuffices } from './choice/held.ts';
import { sparingSource } from './choice/metered.ts';
import { isoTime } from './choice/order.ts';
import type { InstallOrder, UpdatePorts } from './choice/order.ts';
import { holdsFirmware, inForce } from './choice/quarantine.ts';
import { refuseOldBoards, refuseRelease } from './choice/release-rules.ts';
import { endListTaken } from './choice/take-list.ts';
import { Costs } from './costs.ts';
import { openBaseOf, requireBases } from './delta/base.ts';
import { UpdateError } from './errors.ts';
import { evidenceOf, evidenceOfSlot } from './evidence.ts';
import type { SlotContents } from './evidence.ts';
import { consentToInstall } from './hooks/consent.ts';
import { checkpointOf, STAGING_ROOM_BYTES } from './journal/checkpoint.ts';
import type { Figures } from './journal/parts/figures.ts';
import { savedWrites } from './journal/saved-writes.ts';
import { hasSlotPayload, recordsOf } from './journal/state.ts';
import type { PartitionRecord } from './journal/state.ts';
import type { InstallOutcome } from './outcome.ts';
import type {
  FirmwareHeader,
  PayloadHeader,
  PayloadOpening,
  PayloadWriter,
  SlotName,
  SlotsTarget,
  StagedFirmware,
  Target,
} from './ports.ts';
import { otherSlot } from './slot.ts';
import { placesOf, recordOf, resolveTargets } from './targets.ts';
import { consentToReboot, judgeTrial, startTrial } from './trial/trial.ts';
import { copyPartition, planCompletion, slotsTargets, withFormats } from './whole-slot.ts';
import type { Completion, OpenPartition } from './whole-slot.ts';

/** Within one attempt; the transfer itself takes up cut connections before that. */
const STAGING_RETRIES: RetryPolicy = {
  attempts: 3,
  firstDelayMs: 2_000,
  maxDelayMs: 30_000,
  maxRetryAfterMs: 120_000,
};

/**
 * Installs one firmware up to the reboot into its trial; settle() is the other half. Cut anywhere, the journal says
 * where it stands.
 */
export async function update(order: InstallOrder, ports: UpdatePorts, signal: AbortSignal): Promise<InstallOutcome> {
  const { journal, bootloader, settings } = ports;
  const slot = otherSlot(await bootloader.bootedSlot(signal));
  await refuseUnsettled(ports, signal);
  await bootloader.canary(signal);

  const attempt = attemptFor(order, slot, ports);
  const begin = async () => journal.append({ type: 'staging-started', attempt, slot, at: isoTime(ports.clock) });
  const notNow = order.isList === true ? undefined : await consentToInstall({ attempt, slot, begin }, ports, signal);
  if (notNow !== undefined) return notNow;
  await begin();
  const staging = new Staging(order, slot, ports, new Costs(attempt.figures));
  const firmware = await staging.run(signal);
  const { figures } = staging;
  if (firmware === undefined) return endInstalled(order, ports, figures);
  if (firmware.header.kind === 'trust-list') return endListTaken(firmware, order, ports, figures);
  const verified = evidenceOf(firmware);

  const record = recordOf(firmware, staging.targets);
  const onTrial = hasSlotPayload(record) ? slot : otherSlot(slot);
  const name = signedName(order, firmware.header);
  const { downgrade } = staging;
  if (downgrade !== undefined)
    ports.log.warn({ version: name }, `an older release is installed, as root said: it ${downgrade}`);
  const version = { ...order.version, name: name ?? order.version.name };
  const at = isoTime(ports.clock);
  const written = await withFormats(recordsOf(record, { version, at }), slot, ports, signal);
  const records = { ...written, ...staging.completed(at) };
  const { phase } = await journal.append({
    type: 'staged',
    firmware: record,
    slot: onTrial,
    trials: settings.trials,
    name,
    downgrade,
    records,
    figures,
  });
  ports.onProgress({ kind: 'phase', phase: 'staged', detail: savedWrites(firmware) });
  if (!hasSlotPayload(record)) return judgeTrial(ports, signal);
  const held = order.reboot ? heldBack(phase.attempt, ports.holdReboot) : undefined;
  const wait = held ?? (await consentToReboot(phase, ports, signal));
  if (wait !== undefined) return wait;
  const evidence = evidenceOfSlot(verified, staging.contents);
  return startTrial(phase, { evidence, reboot: order.reboot }, ports, signal);
}

/**
 * Where nothing can be kept, nothing is begun. What is under way may only be known now: the journal could not be read when
 * it was settled.
 */
async function refuseUnsettled({ journal, bootloader }: UpdatePorts, signal: AbortSignal): Promise<void> {
  await journal.probe(STAGING_ROOM_BYTES);
  const { kind } = journal.state.phase;
  if (kind !== 'idle' && kind !== 'staging')
    throw new UpdateError('update-under-way', `an update is under way (${kind})`);
  if (!(await bootloader.onTrial(signal))) return;
  const why = 'what runs is on trial: nothing is staged before it is committed or left';
  throw new UpdateError('update-under-way', why);
}

/** From the source to the slot. Ends the attempt in the journal where it fails for good, pauses it where it may go on. */
class Staging {
  readonly #order: InstallOrder;
  readonly #slot: SlotName;
  readonly #ports: UpdatePorts;
  readonly #costs: Costs;
  #opened = false;
  #completions: readonly Completion[] = [];
  targets: ReadonlyMap<PayloadHeader, Target> = new Map();
  /** Why the release is below the floor, where root allowed it. */
  downgrade: string | undefined;

  constructor(order: InstallOrder, slot: SlotName, ports: UpdatePorts, costs: Costs) {
    this.#order = order;
    this.#slot = slot;
    this.#ports = ports;
    this.#costs = costs;
  }

  get figures(): Figures {
    return this.#costs.figures;
  }

  /** What the slot is made of now. */
  get contents(): SlotContents {
    const names = (targets: Iterable<Target>): string[] => slotsTargets(targets).map(({ name }) => name);
    const configured = names(this.#ports.targets.values());
    const read = this.#completions.map(({ target, record: { digest } }) => ({
      target: target.name,
      recorded: digest,
      found: digest,
    }));
    return { slot: this.#slot, configured, staged: names(this.targets.values()), read };
  }

  /** Of the partitions that the firmware did not bring. */
  completed(at: string): Record<string, PartitionRecord> {
    return Object.fromEntries(this.#completions.map(({ target, record }) => [target.name, { ...record, at }]));
  }

  /** Undefined: it is what runs. */
  async run(signal: AbortSignal): Promise<StagedFirmware | undefined> {
    const { clock, random, log } = this.#ports;
    const onRetry = (error: AgentError, delayMs: number): void =>
      log.warn({ code: error.code, delayMs: Math.round(delayMs) }, `staging starts over: ${error.message}`);
    try {
      return await retry(() => this.#stageOnce(signal), STAGING_RETRIES, { clock, random, onRetry }, signal);
    } catch (error) {
      if (error instanceof AgentError) await this.#recordFailure(error);
      throw error;
    }
  }

  async #stageOnce(signal: AbortSignal): Promise<StagedFirmware | undefined> {
    const { onProgress, journal, settings } = this.#ports;
    const firmware = await this.#transfer(signal);
    if (firmware === undefined) return undefined;
    this.#refuseQuarantined(firmware.digest);
    const record = recordOf(firmware, this.targets);
    this.downgrade ??= refuseOldBoards(record, journal.state, settings.release, this.#order);
    const open: OpenPartition = async (target, opening) => this.#openPartition(target, opening, signal);
    for (const completion of this.#completions.filter(({ how }) => how === 'copy')) {
      onProgress({ kind: 'phase', phase: 'staging', detail: `${completion.target.name}, from the slot that runs` });
      this.#costs.countWritten(await copyPartition(completion, this.#slot, open, signal));
    }
    for (const { written } of firmware.payloads) this.#costs.countWritten(written);
    return firmware;
  }

  /** As far as its header, where it is already what it would become. Undefined: it runs. */
  async #transfer(signal: AbortSignal): Promise<StagedFirmware | undefined> {
    try {
      return await this.#transferWhole(signal);
    } catch (error) {
      if (!(error instanceof HeaderSuffices)) throw error;
      return error.held?.kind === 'in-slot' ? error.held.firmware : undefined;
    }
  }

  async #transferWhole(signal: AbortSignal): Promise<StagedFirmware> {
    const { journal, onProgress, stageFirmware } = this.#ports;
    const { phase, installed } = journal.state;
    return stageFirmware(
      {
        source: this.#costs.counting(this.#isForced ? this.#order.source : sparingSource(this.#order, this.#ports)),
        installedProvides: installed?.provides ?? {},
        accept: async (header) => {
          this.#refuseQuarantined(header.digest);
          this.#refuseRelease(header);
          if (header.kind === 'trust-list') return;
          this.targets = resolveTargets(header, this.#ports.targets, this.#ports.settings);
          onProgress({ kind: 'phase', phase: 'staging', detail: placesOf(this.targets.values(), this.#slot) });
          await this.#stopIfHeld(header, signal);
          await requireBases(this.targets, this.#slot, this.#ports, signal);
        },
        openPayload: (opening) => this.#openPayload(opening, signal),
        openBase: (payload) => openBaseOf(this.targets.get(payload), this.#slot, signal),
        resume: phase.kind === 'staging' ? checkpointOf(phase) : undefined,
        onCheckpoint: async (checkpoint) => {
          await journal.append({ type: 'checkpointed', checkpoint, figures: this.figures });
        },
        onProgress: (progress) => onProgress({ kind: 'transfer', ...progress }),
      },
      signal,
    );
  }

  /** Also plans what becomes of the partitions that the firmware does not bring. */
  async #stopIfHeld(header: FirmwareHeader, signal: AbortSignal): Promise<void> {
    const [ports, slot] = [this.#ports, this.#slot];
    const held = this.#isForced ? undefined : await findHeld(header, this.targets, { slot, ports }, signal);
    if (held?.kind === 'installed') throw new HeaderSuffices(held);
    this.#completions = await planCompletion(this.targets.values(), slot, ports, signal);
    if (held !== undefined) throw new HeaderSuffices(held);
  }

  async #openPayload(opening: PayloadOpening, signal: AbortSignal): Promise<PayloadWriter> {
    const target = this.targets.get(opening.payload);
    if (target === undefined) throw new Error(`payload ${opening.payload.fileName} was not accepted`);
    return target.kind === 'slots' ? this.#openPartition(target, opening, signal) : target.openFile(opening, signal);
  }

  /** Nothing of the old slot is touched before the new firmware was accepted; from then on it must not boot. */
  async #openPartition(target: SlotsTarget, opening: PayloadOpening, signal: AbortSignal): Promise<PayloadWriter> {
    const writer = await target.openSlot(this.#slot, opening, signal);
    try {
      await this.#ports.journal.append({ type: 'slot-opened', target: target.name });
      if (!this.#opened) await this.#ports.bootloader.markUnbootable(this.#slot, signal);
    } catch (error) {
      await writer[Symbol.asyncDispose]();
      throw error;
    }
    this.#opened = true;
    return writer;
  }

  #refuseRelease(header: FirmwareHeader): void {
    const { version, by, allowDowngrade = false, isList = false } = this.#order;
    if (isList && header.kind !== 'trust-list')
      throw new UpdateError('list-exchanged', `${version.name} is not the list that it was a moment ago`);
    const { floor } = this.#ports.journal.state;
    const settings = this.#ports.settings.release;
    const offeredName = by === 'service' ? version.name : undefined;
    this.downgrade = refuseRelease(header, { settings, offeredName, floor, allowDowngrade });
  }

  get #isForced(): boolean {
    const { phase } = this.#ports.journal.state;
    return 'attempt' in phase && phase.attempt.forced === true;
  }

  #refuseQuarantined(digest: string | undefined): void {
    const { journal, clock, settings } = this.#ports;
    if (digest === undefined || this.#isForced) return;
    const held = inForce(journal.state, clock.nowMs(), settings.quarantineMs);
    const entry = held.find((known) => holdsFirmware(known, digest, this.#order.version));
    if (entry === undefined) return;
    throw new UpdateError(
      'quarantined',
      `firmware ${digest} ended badly before (${entry.version.name}: ${entry.reason})`,
    );
  }

  async #recordFailure(error: AgentError): Promise<void> {
    const { journal, clock, onRefused } = this.#ports;
    const { figures } = this;
    await onRefused?.(error);
    if (error.remedy === 'retry' && this.#order.by === 'service') {
      await journal.append({ type: 'staging-paused', at: isoTime(clock), figures });
      return;
    }
    const refused = error.exit === 'refused';
    await journal.append({
      type: 'failed',
      at: isoTime(clock),
      figures,
      failure: {
        outcome: refused ? 'refused' : 'failed',
        code: error.code,
        reason: error.message,
        // A login page of the network, say, in place of the firmware; or the service has the whole image later.
        curable: error.exit === 'protocol' || error.code === 'delta-base',
      },
    });
  }
}
