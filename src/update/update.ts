import { UpdateError } from './errors.ts';
import { evidenceOf, evidenceOfSlot } from './evidence.ts';
import { consentToInstall } from './hooks/consent.ts';
import { STAGING_ROOM_BYTES, hasSlotPayload } from './journal/state.ts';
import type { Attempt } from './journal/state.ts';
import type { InstallOutcome } from './outcome.ts';
import { isoTime } from './policy/install-request.ts';
import type { InstallRequest, UpdatePorts } from './policy/install-request.ts';
import { deferredOutcome } from './policy/may-try.ts';
import { isSameOffer } from './policy/plan.ts';
import { endAppliedList, endInstalled } from './policy/presence.ts';
import type { FirmwareHeader, SlotName } from './ports.ts';
import { otherSlot } from './slot.ts';
import { Staging } from './staging/staging.ts';
import { savedWrites, recordOf } from './staging/targets.ts';
import { consentToReboot, evaluateTrial, startTrial } from './trial/trial.ts';
import { recordsOf } from './whole-slot.ts';

/**
 * Guarantee `power-cut`: installs a release up to the reboot into its trial; the recovery is the other half. After an
 * interruption at any point, the journal has the position.
 */
export async function update(order: InstallRequest, ports: UpdatePorts): Promise<InstallOutcome> {
  const { journal, bootloader, settings } = ports;
  const slot = otherSlot(await bootloader.bootedSlot(ports.signal));
  await refuseUnsettled(ports);
  await bootloader.canary(ports.signal);

  const attempt = attemptFor(order, slot, ports);
  // called once: below, or where a hook refuses, so that its veto is the end of an attempt
  const begin = async () => journal.append({ type: 'staging-started', attempt, slot, at: isoTime(ports.clock) });
  const notNow = order.isList === true ? undefined : await consentToInstall({ attempt, slot, begin }, ports);
  if (notNow !== undefined) return notNow;
  await begin();
  const staging = new Staging(order, slot, ports, attempt.figures);
  const firmware = await staging.run();
  const { figures } = staging;
  if (firmware === undefined) return endInstalled(order, ports, figures);
  if (firmware.header.kind === 'trust-list') return endAppliedList(firmware, order, ports, figures);
  const verified = evidenceOf(firmware);

  const record = recordOf(firmware, staging.targets);
  // boards alone are tried with the running slot
  const onTrial = hasSlotPayload(record) ? slot : otherSlot(slot);
  const name = signedName(order, firmware.header);
  const { downgrade } = staging;
  if (downgrade !== undefined)
    ports.log.warn({ version: name }, `an older release is installed, as root permitted: it ${downgrade}`);
  const version = { ...order.version, name: name ?? order.version.name };
  const at = isoTime(ports.clock);
  const written = await recordsOf(record, { version, at }, slot, ports);
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
  if (!hasSlotPayload(record)) return evaluateTrial(ports);
  const deferred = order.reboot ? deferredOutcome(phase.attempt, ports.deferReboot) : undefined;
  const wait = deferred ?? (await consentToReboot(phase, ports));
  if (wait !== undefined) return wait;
  const evidence = evidenceOfSlot(verified, staging.contents);
  return startTrial(phase, { evidence, reboot: order.reboot }, ports);
}

/**
 * Refuses to begin if nothing can be stored. If the journal was unreadable during the recovery, only now is it known
 * that an update is in progress.
 */
async function refuseUnsettled({ journal, bootloader, signal }: UpdatePorts): Promise<void> {
  await journal.probe(STAGING_ROOM_BYTES);
  const { kind } = journal.state.phase;
  if (kind !== 'idle' && kind !== 'staging')
    throw new UpdateError('update-in-progress', `an update is in progress (${kind})`);
  if (!(await bootloader.onTrial(signal))) return;
  const why = 'the running version is on trial: nothing is staged before it is committed or abandoned';
  throw new UpdateError('update-in-progress', why);
}

/** Resumes an interrupted attempt at the same version; for anything else, makes a new attempt. */
function attemptFor(order: InstallRequest, slot: SlotName, ports: UpdatePorts): Attempt {
  const { phase } = ports.journal.state;
  if (phase.kind === 'staging' && phase.slot === slot && order.by === 'service') {
    const { attempt } = phase;
    const isSame = attempt.by === 'service' && isSameOffer(attempt.version, order.version);
    if (isSame) return { ...attempt, ...persistedOptions(order) };
  }
  const { version, by } = order;
  return { id: ports.newAttemptId(), version, by, startedAt: isoTime(ports.clock), ...persistedOptions(order) };
}

/** The options of an order that must survive a restart. */
function persistedOptions({
  force,
  reboot,
  manual,
}: InstallRequest): Pick<Attempt, 'forced' | 'rebootByHand' | 'manual'> {
  return { ...(force && { forced: true }), rebootByHand: !reboot, ...(manual === true && { manual: manual }) };
}

/** The name of a signed release, or of a file, under which it is shown and reported. */
function signedName({ by }: InstallRequest, { name, signedBy }: FirmwareHeader): string | undefined {
  return by === 'file' || signedBy !== undefined ? name : undefined;
}
