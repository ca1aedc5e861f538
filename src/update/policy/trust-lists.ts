import { AgentError, undefinedIf } from '../../system/errors.ts';
import type { HookPort } from '../hooks/hooks.ts';
import type { Deferral } from '../outcome.ts';
import type { FirmwareHeader, FirmwareSource } from '../ports.ts';
import type { IncomingFirmware } from '../ports/incoming.ts';
import type { InstallRequest, UpdatePorts } from './install-request.ts';
import { yieldToTrustList } from './withdraw.ts';

type Ports = Pick<UpdatePorts, 'journal' | 'openFirmware' | 'signal'>;

/** Returns the header of a firmware image. Throws if it is rejected or cannot be read. */
export async function headerOf(source: FirmwareSource, ports: Ports): Promise<FirmwareHeader> {
  await using firmware = await open(source, ports);
  return firmware.header;
}

/** Applies a trust list. Of any other firmware only the header is read. */
export async function applyIfTrustList(source: FirmwareSource, ports: Ports): Promise<void> {
  await using firmware = await open(source, ports);
  if (firmware.header.kind !== 'trust-list') return;
  for await (const { payload } of firmware.payloads) throw new Error(`a list with the payload ${payload.fileName}`);
}

async function open(source: FirmwareSource, { journal, openFirmware, signal }: Ports): Promise<IncomingFirmware> {
  const installedProvides = journal.state.installed?.provides ?? {};
  return openFirmware({ source, installedProvides, onProgress: () => {} }, signal);
}

/**
 * Returns the header of a firmware image, or undefined if it is rejected, which its installation reports. Throws errors
 * that may be transient.
 */
export async function acceptableHeaderOf(source: FirmwareSource, ports: Ports): Promise<FirmwareHeader | undefined> {
  const isRejection = (error: unknown): boolean => error instanceof AgentError && error.remedy === 'give-up';
  return undefinedIf(isRejection, headerOf(source, ports));
}

/** True if a file is a trust list. The file is not read if neither a deferral nor a hook would stop it. */
export async function isListInFile(
  source: FirmwareSource,
  deferral: Deferral | undefined,
  ports: Ports,
  hooks: HookPort | undefined,
): Promise<boolean> {
  if (deferral === undefined && hooks?.wants('before_install') !== true) return false;
  const header = await acceptableHeaderOf(source, ports);
  return header?.kind === 'trust-list';
}

/**
 * Returns the version that is staged or on trial, if it prevents the installation of this file: it is another one. A
 * trust list takes effect here, before the health checks, and firmware that has not booted yet yields to it. A rejected
 * list throws, and changes nothing.
 */
export async function findWaitingBeside(
  { source, version }: InstallRequest,
  ports: UpdatePorts,
): Promise<InstallRequest['version'] | undefined> {
  const { phase } = ports.journal.state;
  if (phase.kind !== 'staged' && phase.kind !== 'trial') return undefined;
  const { attempt, firmware } = phase;
  if (attempt.by === 'file' && attempt.version.name === version.name) return undefined; // a raw image has no digest yet
  try {
    const { digest, kind } = await headerOf(source, ports);
    if (kind !== 'trust-list') return digest !== undefined && digest === firmware.digest ? undefined : attempt.version;
    if (attempt.by === 'rollback') return attempt.version;
    await applyIfTrustList(source, ports);
  } catch (error) {
    if (error instanceof AgentError) await ports.onRefused?.(error); // no attempt has started to report it
    throw error;
  }
  await yieldToTrustList(ports);
  return undefined;
}
