import type { PhaseOf } from '../journal/state.ts';
import type { FirmwareHeader, FirmwareSource } from '../ports.ts';
import type { InstallOrder, UpdatePorts } from './order.ts';

/** `list`: of keys and revocations, which goes into no slot. */
export type Beside = 'same' | 'another' | 'list';

/** What a file is, beside what waits for its boot. An image has no digest before its end, and counts by its name. */
export async function compareToWaiting(
  { attempt, firmware }: PhaseOf<'staged' | 'trial'>,
  file: Pick<InstallOrder, 'source' | 'version'>,
  { stageFirmware }: Pick<UpdatePorts, 'stageFirmware'>,
  signal: AbortSignal,
): Promise<Beside> {
  if (attempt.by === 'file' && attempt.version.name === file.version.name) return 'same';
  const { digest, kind } = await headerOf(file.source, stageFirmware, signal);
  if (kind === 'trust-list') return 'list';
  return digest === undefined || digest !== firmware.digest ? 'another' : 'same';
}

/** Thrown through the staging, which then has read no further. */
class HeaderSeen extends Error {
  readonly header: FirmwareHeader;

  constructor(header: FirmwareHeader) {
    super('the header was all that was wanted');
    this.header = header;
  }
}

async function headerOf(
  source: FirmwareSource,
  stageFirmware: UpdatePorts['stageFirmware'],
  signal: AbortSignal,
): Promise<FirmwareHeader> {
  const accept = async (header: FirmwareHeader): Promise<never> => {
    throw new HeaderSeen(header);
  };
  const openPayload = async (): Promise<never> => {
    throw new TypeError('a payload is opened before its header was accepted');
  };
  try {
    const request = { source, installedProvides: {}, accept, openPayload, onProgress: () => {} };
    return (await stageFirmware(request, signal)).header;
  } catch (error) {
    if (error instanceof HeaderSeen) return error.header;
    throw error;
  }
}
