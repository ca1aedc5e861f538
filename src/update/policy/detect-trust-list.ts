import { AgentError } from '../../system/errors.ts';
import type { PhaseOf } from '../journal/state.ts';
import type { FirmwareHeader, FirmwareSource } from '../ports.ts';
import type { IncomingFirmware } from '../ports/incoming.ts';
import type { InstallRequest, UpdatePorts } from './install-request.ts';

type Ports = Pick<UpdatePorts, 'journal' | 'openFirmware'>;

/** Returns the header of a firmware image. Throws if it is rejected or cannot be read. */
export async function headerOf(source: FirmwareSource, ports: Ports, signal: AbortSignal): Promise<FirmwareHeader> {
  await using firmware = await open(source, ports, signal);
  return firmware.header;
}

/** Applies a trust list. Of any other firmware only the header is read. */
export async function applyIfTrustList(source: FirmwareSource, ports: Ports, signal: AbortSignal): Promise<boolean> {
  await using firmware = await open(source, ports, signal);
  if (firmware.header.kind !== 'trust-list') return false;
  for await (const { payload } of firmware.payloads) throw new Error(`a list with the payload ${payload.fileName}`);
  return true;
}

async function open(
  source: FirmwareSource,
  { journal, openFirmware }: Ports,
  signal: AbortSignal,
): Promise<IncomingFirmware> {
  const installedProvides = journal.state.installed?.provides ?? {};
  return openFirmware({ source, installedProvides, onProgress: () => {} }, signal);
}

/**
 * Returns the header of a firmware image, or undefined if it is rejected, which its installation reports. Throws errors
 * that may be transient.
 */
export async function acceptableHeaderOf(
  source: FirmwareSource,
  ports: Ports,
  signal: AbortSignal,
): Promise<FirmwareHeader | undefined> {
  try {
    return await headerOf(source, ports, signal);
  } catch (error) {
    if (!(error instanceof AgentError) || error.remedy === 'retry') throw error;
    return undefined;
  }
}

/** `list`: a trust list, which is for no slot. */
export type Beside = 'same' | 'another' | 'list';

/** Compares a file with the firmware that waits for its boot. A raw image has no digest yet, so its name counts. */
export async function compareToWaiting(
  { attempt, firmware }: PhaseOf<'staged' | 'trial'>,
  file: Pick<InstallRequest, 'source' | 'version'>,
  ports: Ports & Pick<UpdatePorts, 'onRefused'>,
  signal: AbortSignal,
): Promise<Beside> {
  if (attempt.by === 'file' && attempt.version.name === file.version.name) return 'same';
  const { digest, kind } = await reportingRejection(async () => headerOf(file.source, ports, signal), ports);
  if (kind === 'trust-list') return 'list';
  return digest === undefined || digest !== firmware.digest ? 'another' : 'same';
}

/** Reports a rejection before an attempt starts, since nothing else would report it. */
export async function reportingRejection<T>(
  work: () => Promise<T>,
  { onRefused }: Pick<UpdatePorts, 'onRefused'>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AgentError) await onRefused?.(error);
    throw error;
  }
}
