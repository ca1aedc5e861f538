import { isDeepStrictEqual } from 'node:util';

import { AgentError } from '../../system/errors.ts';
import { retry } from '../../system/time/retry.ts';
import type { RetryPolicy } from '../../system/time/retry.ts';
import { openBaseOf, requireBases } from '../delta/base.ts';
import type { SlotContents } from '../evidence.ts';
import type { Figures, PartitionRecord } from '../journal/state.ts';
import { entryOf } from '../journal/versions.ts';
import type { Blocked } from '../journal/versions.ts';
import type { Deferral } from '../outcome.ts';
import { activeEntries, isEnvironmental, quarantinedError } from '../policy/backoff.ts';
import { isoTime } from '../policy/install-request.ts';
import type { InstallRequest, UpdatePorts } from '../policy/install-request.ts';
import { AttemptDeferred, mayTry } from '../policy/may-try.ts';
import { findPresence } from '../policy/presence.ts';
import { refuseMisnamed, refuseOldBoards, refuseRelease } from '../policy/release-rules.ts';
import type { Checkpoint, FirmwareHeader, PayloadHeader, SlotName, Target } from '../ports.ts';
import type { FirmwareRequest, IncomingFirmware, StagedFirmware, StagedPayload } from '../ports/incoming.ts';
import { copyPartition, planCompletion, slotsTargets } from '../whole-slot.ts';
import type { PartitionCopy } from '../whole-slot.ts';
import { meteredSource, Costs } from './costs.ts';
import { placesOf, recordOf, resolveTargets } from './targets.ts';

/** Retries within one attempt. Before them, the transfer itself continues after cut connections. */
const STAGING_RETRIES: RetryPolicy = {
  attempts: 3,
  firstDelayMs: 2_000,
  maxDelayMs: 30_000,
  maxRetryAfterMs: 120_000,
};

/** The errors after which a transfer that was continued from a checkpoint is begun again at its beginning. */
const STALE_CODES: ReadonlySet<string> = new Set(['checkpoint-stale', 'payload-stale', 'delta-base-mismatch']);

/**
 * Writes a release from its source to its targets. If that fails, the attempt ends in the journal, or is paused there
 * if it may continue later.
 */
export class Staging {
  readonly #order: InstallRequest;
  readonly #slot: SlotName;
  readonly #ports: UpdatePorts;
  readonly #costs: Costs;
  /** The signed name of a file. */
  #signedName: string | undefined;
  #isUnbootable = false;
  /** The reason why the content has to wait, found once it was known. */
  #deferral: Deferral | undefined;
  #completions: readonly PartitionCopy[] = [];
  targets: ReadonlyMap<PayloadHeader, Target> = new Map();
  /** The reason why the release is below the minimum, if root permitted that. */
  downgrade: string | undefined;

  constructor(order: InstallRequest, slot: SlotName, ports: UpdatePorts, before: Figures | undefined) {
    this.#order = order;
    this.#slot = slot;
    this.#ports = ports;
    this.#costs = new Costs(before);
  }

  get figures(): Figures {
    return this.#costs.figures;
  }

  /** The present content of each partition of the slot. */
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

  /** The records of the partitions that the firmware did not bring. */
  completed(at: string): Record<string, PartitionRecord> {
    return Object.fromEntries(this.#completions.map(({ target, record }) => [target.name, { ...record, at }]));
  }

  /** Stages the release. Returns undefined if it already runs. */
  async run(): Promise<StagedFirmware | undefined> {
    const { clock, random, log } = this.#ports;
    const onRetry = (error: AgentError, delayMs: number): void =>
      log.warn({ code: error.code, delayMs: Math.round(delayMs) }, `staging starts over: ${error.message}`);
    try {
      // a file is sent once, by an operator who can send it again
      const isFile = this.#order.source.form === 'decoded';
      const policy = isFile ? { ...STAGING_RETRIES, attempts: 1 } : STAGING_RETRIES;
      return await retry(() => this.#stage(), policy, { clock, random, onRetry }, this.#ports.signal);
    } catch (error) {
      if (error instanceof AgentError) await this.#recordFailure(error);
      throw error;
    }
  }

  /** Transfers the release, from a checkpoint if there is a valid one. Returns undefined if it already runs. */
  async #stage(): Promise<StagedFirmware | undefined> {
    const { journal, settings } = this.#ports;
    const { phase } = journal.state;
    let resume = phase.kind === 'staging' ? phase.checkpoint : undefined;
    let expected: FirmwareHeader | undefined;
    let firmware: StagedFirmware | undefined;
    for (;;) {
      try {
        await using incoming = await this.#open(resume, expected);
        expected = incoming.header;
        this.#ports.signal.throwIfAborted();
        firmware = await this.#take(incoming);
        break;
      } catch (error) {
        if (resume === undefined || !(error instanceof AgentError) || !STALE_CODES.has(error.code)) throw error;
      }
      resume = undefined;
      await this.#keepCheckpoint(undefined);
    }
    if (firmware === undefined) return undefined;
    if (firmware.header.digest === undefined) await this.#identify({ digest: firmware.digest });
    this.#defer();
    const record = recordOf(firmware, this.targets);
    this.downgrade ??= refuseOldBoards(record, journal.state, settings.release, this.#order);
    await this.#complete();
    for (const { written } of firmware.payloads) this.#costs.countWritten(written);
    return firmware;
  }

  async #open(resume: Checkpoint | undefined, expected: FirmwareHeader | undefined): Promise<IncomingFirmware> {
    const { journal, onProgress, openFirmware } = this.#ports;
    const request: FirmwareRequest = {
      source: this.#costs.counting(this.#isForced ? this.#order.source : meteredSource(this.#order, this.#ports)),
      installedProvides: journal.state.installed?.provides ?? {},
      onSignedName: (name) => (this.#signedName = this.#order.by === 'file' ? name : undefined),
      resume,
      expected,
      onCheckpoint: async (checkpoint) => this.#keepCheckpoint(checkpoint),
      onProgress: (progress) => onProgress({ kind: 'transfer', ...progress }),
    };
    return openFirmware(request, this.#ports.signal);
  }

  async #keepCheckpoint(checkpoint: Checkpoint | undefined): Promise<void> {
    await this.#ports.journal.append({ type: 'checkpointed', checkpoint, figures: this.figures });
  }

  /**
   * Invariant 2: rejects the release by its header, and only then writes each payload: opens its target, discards the
   * content of the target, and writes the first byte. If the other slot already has the release, it is returned without
   * reading its payloads. Returns undefined if it already runs.
   */
  async #take({ header, payloads }: IncomingFirmware): Promise<StagedFirmware | undefined> {
    const { journal, settings } = this.#ports;
    const isList = header.kind === 'trust-list';
    refuseMisnamed(header, this.#order, settings.release); // counts for the offer, not for the release
    await this.#identify(header, isList);
    this.downgrade = refuseRelease(header, journal.state, settings.release, this.#order);
    const presence = isList ? undefined : await this.#plan(header);
    if (presence?.kind === 'installed') return undefined;
    this.#defer();
    if (!isList) {
      if (presence !== undefined) return presence.firmware;
      await requireBases(this.targets, this.#slot, this.#ports);
    }
    const staged: StagedPayload[] = [];
    for await (const payload of payloads) {
      const target = this.#targetOf(payload.payload);
      await using base = payload.isRebuilt ? await openBaseOf(target, this.#slot, this.#ports.signal) : undefined;
      await using writer =
        target.kind === 'slots'
          ? await target.openSlot(this.#slot, payload, this.#ports.signal)
          : await target.openFile(payload, this.#ports.signal);
      if (target.kind === 'slots') await this.#giveUpContent(target);
      staged.push(await payload.write({ writer, base }, this.#ports.signal));
    }
    return stagedFirmware(header, staged);
  }

  /**
   * Decides about the target of each payload, and about the partitions that the release leaves out. Returns the
   * existing copy of the release, or undefined if its payloads have to be written.
   */
  async #plan(header: FirmwareHeader): ReturnType<typeof findPresence> {
    const [ports, slot] = [this.#ports, this.#slot];
    this.targets = resolveTargets(header, ports.targets, ports.settings);
    const content = Object.fromEntries([...this.targets].map(([{ digest }, { name }]) => [name, digest]));
    this.#refuseQuarantined(
      ({ bad, version }) => version.name === header.name && isDeepStrictEqual(bad.content, content),
    );
    ports.onProgress({ kind: 'phase', phase: 'staging', detail: placesOf(this.targets.values(), slot) });
    const presence = this.#isForced ? undefined : await findPresence(header, this.targets, slot, ports);
    if (presence?.kind === 'installed') return presence;
    this.#completions = await planCompletion(this.targets.values(), slot, ports);
    return presence;
  }

  /** Copies the partitions that the firmware leaves out from the slot that runs. */
  async #complete(): Promise<void> {
    for (const completion of this.#completions.filter(({ how }) => how === 'copy')) {
      const { target } = completion;
      const detail = `${target.name}, from the slot that runs`;
      this.#ports.onProgress({ kind: 'phase', phase: 'staging', detail });
      const onOpened = async (): Promise<void> => this.#giveUpContent(target);
      this.#costs.countWritten(await copyPartition(completion, this.#slot, onOpened, this.#ports.signal));
    }
  }

  /** Invariant 2: forgets what the partition holds, since the next write destroys it, and marks the slot unbootable. */
  async #giveUpContent({ name }: Target): Promise<void> {
    const { journal, bootloader } = this.#ports;
    await journal.append({ type: 'slot-opened', target: name });
    if (!this.#isUnbootable) await bootloader.markUnbootable(this.#slot, this.#ports.signal);
    this.#isUnbootable = true;
  }

  #targetOf(payload: PayloadHeader): Target {
    const target = this.targets.get(payload);
    if (target === undefined) throw new Error(`payload ${payload.fileName} was not accepted`);
    return target;
  }

  get #isForced(): boolean {
    const { phase } = this.#ports.journal.state;
    return 'attempt' in phase && phase.attempt.forced === true;
  }

  /**
   * Notes the content of the version once it is known, and refuses it if it is quarantined. Under whatever id the service
   * names it, its digest tells what happened to it before.
   */
  async #identify({ digest }: Partial<FirmwareHeader>, isList = false): Promise<void> {
    if (digest === undefined) return;
    const { journal, clock, settings: limits } = this.#ports;
    const { version, by, force, manual = false } = this.#order;
    const nowMs = clock.nowMs();
    if (by === 'service' && entryOf(journal.state.versions, { version })?.digest !== digest) {
      const release = { version: { name: version.name }, digest, state: journal.state, limits, nowMs, manual };
      const options = { ...(force && { forced: true }), ...(manual && { manual }) };
      await journal.append({ type: 'identified', digest, ...options });
      this.#deferral = this.#isForced ? undefined : mayTry({ release, isList });
    }
    this.#refuseQuarantined((entry) => entry.digest === digest);
  }

  #refuseQuarantined(isSame: (entry: Blocked) => boolean): void {
    const { journal, clock, settings } = this.#ports;
    const quarantined = activeEntries(journal.state, clock.nowMs(), settings.quarantineMs);
    const entry = this.#isForced ? undefined : quarantined.find(isSame);
    if (entry !== undefined) throw quarantinedError(entry);
  }

  #defer(): void {
    if (this.#deferral !== undefined) throw new AttemptDeferred(this.#deferral);
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
      name: this.#signedName,
      figures,
      failure: {
        outcome: refused ? 'refused' : 'failed',
        code: error.code,
        reason: error.message,
        curable: isEnvironmental(error),
      },
    });
  }
}

/** The firmware once all its payloads are written. The digest of a raw image is known only then. */
export function stagedFirmware(header: FirmwareHeader, payloads: readonly StagedPayload[]): StagedFirmware {
  const digest = header.digest ?? payloads[0]?.written.digest;
  if (digest === undefined) throw new Error('a firmware image without a digest and without a payload');
  return { header, digest, provides: header.provides ?? {}, payloads };
}
