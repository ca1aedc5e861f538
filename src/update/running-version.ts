import { AgentError } from '../system/errors.ts';
import type { FirmwareRecord } from './journal/state.ts';
import { isoTime } from './policy/install-request.ts';
import type { UpdatePorts } from './policy/install-request.ts';
import type { SlotName } from './ports.ts';
import { slotsTargets } from './whole-slot.ts';

/** Stands for the digest of an image that could not be verified; no release has it. */
export const UNKNOWN_DIGEST = 'unknown';

/**
 * Records that the running slot was committed, and so is known to boot, which makes it possible to roll back to it. If
 * no agent has installed anything yet, the version is the image's own, or of a gateway with boards alone the configured
 * one. If nothing can be written, the next start does this.
 */
export async function recordRunningVersion(slot: SlotName, ports: UpdatePorts): Promise<void> {
  const { journal, targets, imageVersion, isVersionConfigured, clock, log } = ports;
  const isInSlots = slotsTargets(targets.values()).length > 0;
  const packages = [...targets.values()].filter(({ kind }) => kind === 'package');
  if (!isInSlots && packages.length === 0 && isVersionConfigured !== true) return;
  const at = isoTime(clock);
  try {
    if (isInSlots && journal.state.slots[slot].seen === undefined)
      await journal.append({ type: 'slot-seen', slot, at });
    if (journal.state.installed !== undefined || mayBeStale(ports)) return;
    const name = (await imageVersion()) ?? unnamed(isInSlots, ports);
    if (name === undefined) return;
    const installed = { ...unverifiedFirmware(ports), version: { name }, slot, at, factory: true };
    await journal.append({ type: 'factory-version', installed });
    log.info({ version: name, slot }, 'the image that runs names its version');
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    log.warn({ code: error.code }, `the running version is not recorded: ${error.message}`);
  }
}

/** A name for a system without slots, before its first package is replaced, so that an operator can roll back to it. */
function unnamed(isInSlots: boolean, { journal }: UpdatePorts): string | undefined {
  return !isInSlots && journal.state.phase.kind === 'trial' ? 'factory' : undefined;
}

/**
 * True if the configured version is unreliable: after unrecorded updates, the running slot may have any of them,
 * whatever the configuration of both slots states.
 */
function mayBeStale({ journal, isVersionConfigured, log }: UpdatePorts): boolean {
  const { phase, forgot } = journal.state;
  if (isVersionConfigured !== true || (phase.kind !== 'lost' && forgot !== true)) return false;
  log.warn({}, 'device.factory_version is ignored: the journal was lost, and an update may be running');
  return true;
}

/** The record of an image that the factory, or another party, wrote to each partition of a slot. */
export function unverifiedFirmware({ targets }: Pick<UpdatePorts, 'targets'>): FirmwareRecord {
  const payloads = slotsTargets(targets.values()).map(({ name }) => {
    return { target: name, kind: 'slots', digest: UNKNOWN_DIGEST, sizeBytes: 0 } as const;
  });
  return { digest: UNKNOWN_DIGEST, provides: {}, payloads };
}
