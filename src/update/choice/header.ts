import { AgentError } from '../../system/errors.ts';
import type { PhaseOf } from '../journal/state.ts';
import type { FirmwareHeader, FirmwareSource } from '../ports.ts';
import type { InstallOrder, UpdatePorts } from './order.ts';

type Ports = Pick<UpdatePorts, 'journal' | 'stageFirmware'>;

/** Thrown through the staging, which then has read no further. */
class HeaderSeen extends Error {
  readonly header: FirmwareHeader;

  constructor(header: FirmwareHeader) {
    super('the header was all that was wanted');
    this.header = header;
  }
}

/** What a firmware says of itself, without the rest of it. Throws as its staging does, where it is refused or cannot be read. */
export async function headerOf(
  source: FirmwareSource,
  { journal, stageFirmware }: Ports,
  signal: AbortSignal,
): Promise<FirmwareHeader> {
  const accept = async (header: FirmwareHeader): Promise<never> => {
    throw new HeaderSeen(header);
  };
  const openPayload = async (): Promise<never> => {
    throw new TypeError('a payload is opened before its header was accepted');
  };
  const installedProvides = journal.state.installed?.provides ?? {};
  try {
    return (await stageFirmware({ source, installedProvides, accept, openPayload, onProgress: () => {} }, signal))
      .header;
  } catch (error) {
    if (error instanceof HeaderSeen) return error.header;
    throw error;
  }
}

/** The same, where what is refused counts as nothing: that is told when it is installed. Throws what a next time may cure. */
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

/** `list`: of keys and revocations, which goes into no slot. */
export type Beside = 'same' | 'another' | 'list';

/** What a file is, beside what waits for its boot. An image has no digest before its end, and counts by its name. */
export async function compareToWaiting(
  { attempt, firmware }: PhaseOf<'staged' | 'trial'>,
  file: Pick<InstallOrder, 'source' | 'version'>,
  ports: Ports,
  signal: AbortSignal,
): Promise<Beside> {
  if (attempt.by === 'file' && attempt.version.name === file.version.name) return 'same';
  const { digest, kind } = await headerOf(file.source, ports, signal);
  if (kind === 'trust-list') return 'list';
  return digest === undefined || digest !== firmware.digest ? 'another' : 'same';
}
