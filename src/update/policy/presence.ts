import { isDeepStrictEqual } from 'node:util';

import type { Figures, UpdateState } from '../journal/state.ts';
import type { InstallOutcome } from '../outcome.ts';
import type { FirmwareHeader, FirmwareSource, PayloadHeader, SlotName, Target } from '../ports.ts';
import type { StagedFirmware, StagedPayload } from '../ports/incoming.ts';
import { otherSlot } from '../slot.ts';
import { readPartitions } from '../whole-slot.ts';
import { isoTime } from './install-request.ts';
import type { InstallRequest, UpdatePorts } from './install-request.ts';
import { acceptableHeaderOf } from './trust-lists.ts';

/** An existing copy of the release, so that it need not be transferred. */
export type ExistingCopy =
  /** The firmware runs. */
  | { readonly kind: 'installed' }
  /** The other slot holds the firmware, as reading it has just shown. */
  | { readonly kind: 'in-slot'; readonly firmware: StagedFirmware };

type Ports = Pick<UpdatePorts, 'journal' | 'targets' | 'signal'>;

/** Returns the existing copy of the release, or undefined if it has to be transferred. */
export async function findPresence(
  header: FirmwareHeader,
  targets: ReadonlyMap<PayloadHeader, Target>,
  slot: SlotName,
  ports: Ports,
): Promise<ExistingCopy | undefined> {
  const { state } = ports.journal;
  const runs = state.installed?.slot === undefined || state.installed.slot === otherSlot(slot);
  if (header.digest === undefined) return undefined;
  const isRunning = isOfInstalled(header, state) || isSameRelease(header, targets, otherSlot(slot), state);
  if (runs && isRunning) return { kind: 'installed' };
  const payloads = await readPayloads(targets, slot, ports);
  if (payloads === undefined || header.provides === undefined) return undefined;
  const { digest, provides } = header;
  return { kind: 'in-slot', firmware: { header, digest, provides, payloads } };
}

/** True if an offered release is the installed one, by its header. A rejected release counts as another one. */
export async function isInstalled(
  source: FirmwareSource,
  ports: Pick<UpdatePorts, 'journal' | 'openFirmware' | 'signal'>,
): Promise<boolean> {
  const header = await acceptableHeaderOf(source, ports);
  return header !== undefined && isOfInstalled(header, ports.journal.state);
}

/**
 * True if a header belongs to the installed release. A raw image has no digest before its end, and counts as another
 * one.
 */
function isOfInstalled({ digest }: FirmwareHeader, { installed }: UpdateState): boolean {
  return digest !== undefined && digest === installed?.digest;
}

/** True if it is the installed release in another form, such as a delta of the full image. It would change nothing. */
function isSameRelease(
  { name, provides }: FirmwareHeader,
  targets: ReadonlyMap<PayloadHeader, Target>,
  running: SlotName,
  { installed, slots }: UpdateState,
): boolean {
  if (name === undefined || name !== installed?.name || !isDeepStrictEqual(provides, installed.provides)) return false;
  const { records } = slots[running];
  return [...targets].every(([{ digest }, target]) => digest !== undefined && records[target.name]?.digest === digest);
}

/**
 * Returns the payloads in the slot, or undefined if the slot lacks one. Boards keep no payload that was not flashed.
 */
async function readPayloads(
  targets: ReadonlyMap<PayloadHeader, Target>,
  slot: SlotName,
  ports: Ports,
): Promise<readonly StagedPayload[] | undefined> {
  const { records } = ports.journal.state.slots[slot];
  const isRecorded = ([{ digest }, { kind, name }]: readonly [PayloadHeader, Target]): boolean =>
    kind === 'slots' && digest !== undefined && records[name]?.digest === digest;
  if (![...targets].every(isRecorded)) return undefined;
  const payloads: StagedPayload[] = [];
  for (const [header, target] of targets) {
    if (target.kind !== 'slots' || header.digest === undefined) return undefined;
    const sizeBytes = records[target.name]?.sizeBytes ?? 0;
    const [read] = await readPartitions(slot, [target], ports);
    if (read?.found !== header.digest) return undefined;
    const written = { sizeBytes, digest: read.found, unchangedBytes: sizeBytes };
    payloads.push({ header, written, promise: { kind: 'manifest', digest: header.digest } });
  }
  return payloads;
}

/** Ends an attempt whose firmware already runs, perhaps under another name. */
export async function endInstalled(
  { version }: InstallRequest,
  { journal, clock }: UpdatePorts,
  figures: Figures,
): Promise<InstallOutcome> {
  const { installed } = await journal.append({ type: 'found-installed', at: isoTime(clock), figures });
  return { kind: 'installed', version: installed?.version.name ?? version.name };
}

/**
 * Ends the attempt of a trust list in effect. The running version stays, under the id that the service gave the list.
 */
export async function endAppliedList(
  { header }: StagedFirmware,
  { version }: InstallRequest,
  { journal, clock, log, listInEffect, appliedList }: UpdatePorts,
  figures: Figures,
): Promise<InstallOutcome> {
  const name = header.name ?? version.name;
  const number = await listInEffect?.();
  await journal.append({ type: 'trust-list-applied', name, number, at: isoTime(clock), figures });
  log.info({ list: name, number, signedBy: header.signedBy }, 'the trust list took effect');
  return { kind: 'installed', version: name, trustList: appliedList?.() };
}
