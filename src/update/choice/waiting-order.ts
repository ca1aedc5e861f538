import type { PhaseOf } from '../journal/state.ts';
import type { FirmwareHeader, FirmwareSource } from '../ports.ts';
import type { InstallOrder, UpdatePorts } from './order.ts';

/** Is what waits for its boot another firmware than this file? An image has no digest before its end, and counts by its name. */
export async function isAnotherThan(
  { attempt, firmware }: PhaseOf<'staged' | 'trial'>,
  file: Pick<InstallOrder, 'source' | 'version'>,
  { stageFirmware }: Pick<UpdatePorts, 'stageFirmware'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (attempt.by === 'file' && attempt.version.name === file.version.name) return false;
  const { digest } = await headerOf(file.source, stageFirmware, signal);
  return digest === undefined || digest !== firmware.digest;
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
