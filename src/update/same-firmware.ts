import { AgentError } from '../system/errors.ts';
import type { UpdatePorts } from './order.ts';
import type { FirmwareSource } from './ports.ts';

/**
 * Whether a firmware of the service is what is installed: its header tells, and nothing is read beyond that. A raw image
 * has none, and counts as another one; so does what cannot be read, which is told when it is installed.
 */
export async function isInstalled(
  source: FirmwareSource,
  { journal, stageFirmware }: Pick<UpdatePorts, 'journal' | 'stageFirmware'>,
  signal: AbortSignal,
): Promise<boolean> {
  const { installed } = journal.state;
  const request = {
    source,
    installedProvides: installed?.provides ?? {},
    accept: async ({ digest }: { readonly digest: string | undefined }): Promise<never> => {
      throw new Known(digest);
    },
    openPayload: () => Promise.reject(new Error('nothing is written')),
    onProgress: () => {},
  };
  try {
    await stageFirmware(request, signal);
  } catch (error) {
    if (error instanceof Known) return error.digest !== undefined && error.digest === installed?.digest;
    if (!(error instanceof AgentError) || error.remedy === 'retry') throw error;
  }
  return false;
}

/** Ends the reading of a firmware whose digest is known. */
class Known extends Error {
  readonly digest: string | undefined;

  constructor(digest: string | undefined) {
    super('the digest is known');
    this.digest = digest;
  }
}
